package confine

import (
	"syscall"
	"testing"
)

// verdict runs a filter as the kernel would.
func verdict(t *testing.T, made program, arch, number, argument uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{numberOffset: number, archOffset: arch, argument0: argument}
	var a uint32
	for at := 0; at < len(made); at++ {
		switch one := made[at]; one.Code {
		case load:
			a = data[one.K]
		case give:
			return one.K
		case equal, atLeast:
			if (one.Code == equal && a == one.K) || (one.Code == atLeast && a >= one.K) {
				at += int(one.Jt)
			} else {
				at += int(one.Jf)
			}
		default:
			t.Fatalf("an instruction that a filter may not have: %#x", one.Code)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

var amd64 = []abi{
	{arch: 0xc000003e, makers: []uint32{41, 53}, foreign: 0x40000000},
	{arch: 0x40000003, makers: []uint32{359, 360}, socketcall: 102},
}

func TestFilterKnowsEachDoor(t *testing.T) {
	const x86, i386, arm64, unknown = 0xc000003e, 0x40000003, 0xc00000b7, 0xc0000015
	for name, one := range map[string]struct{ arch, number, argument, want uint32 }{
		"inet":                 {x86, 41, syscall.AF_INET, refuse},
		"netlink":              {x86, 41, syscall.AF_NETLINK, refuse},
		"unix":                 {x86, 41, syscall.AF_UNIX, allow},
		"pair of inet":         {x86, 53, syscall.AF_INET, refuse},
		"pair of unix":         {x86, 53, syscall.AF_UNIX, allow},
		"io_uring":             {x86, 425, 8, refuse},
		"read":                 {x86, 0, syscall.AF_INET, allow},
		"x32 socket":           {x86, 0x40000000 + 41, syscall.AF_INET, noSuchCall},
		"i386 inet":            {i386, 359, syscall.AF_INET6, refuse},
		"i386 unix":            {i386, 359, syscall.AF_UNIX, allow},
		"i386 io_uring":        {i386, 426, 0, refuse},
		"i386 socketcall":      {i386, 102, socketcallSocket, refuse},
		"i386 socketcall pair": {i386, 102, socketcallSocketpair, refuse},
		"i386 socketcall send": {i386, 102, 9, allow},
		"i386 number of amd64": {i386, 41, syscall.AF_INET, allow}, // dup
		"arm64 not listed":     {arm64, 198, syscall.AF_UNIX, noSuchCall},
		"unknown machine":      {unknown, 1, 0, noSuchCall},
	} {
		if got := verdict(t, filter(amd64), one.arch, one.number, one.argument); got != one.want {
			t.Errorf("%s: %#x, want %#x", name, got, one.want)
		}
	}
}

func TestFilterOfThisMachineRefusesItsOwnSocketCall(t *testing.T) {
	made := filter(machine)
	if got := verdict(t, made, machine[0].arch, syscall.SYS_SOCKET, syscall.AF_INET); got != refuse {
		t.Errorf("socket: %#x", got)
	}
	if got := verdict(t, made, machine[0].arch, syscall.SYS_SOCKETPAIR, syscall.AF_UNIX); got != allow {
		t.Errorf("socketpair: %#x", got)
	}
}
