// Package confine starts programs that can make no network sockets: a seccomp filter of the kernel
// refuses them every socket but those of AF_UNIX, through each door that the machine has.
package confine

import "syscall"

const (
	allow        = 0x7fff0000
	refuse       = 0x00050000 | uint32(syscall.EACCES)
	noSuchCall   = 0x00050000 | uint32(syscall.ENOSYS)
	numberOffset = 0
	archOffset   = 4
	argument0    = 16 // its low half; the kernel takes an int
	load         = syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	equal        = syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	atLeast      = syscall.BPF_JMP | syscall.BPF_JGE | syscall.BPF_K
	give         = syscall.BPF_RET | syscall.BPF_K
)

// The calls of io_uring, which makes sockets too, have one number everywhere.
var ioUring = []uint32{425, 426, 427}

// The numbers by which socketcall(2) makes sockets.
const (
	socketcallSocket     = 1
	socketcallSocketpair = 8
)

// abi is one way into the kernel. socketcall is 0 where there is none; calls from foreign on are those of x32.
type abi struct {
	arch       uint32
	makers     []uint32 // socket and socketpair: the family is the first argument
	socketcall uint32
	foreign    uint32
}

type program []syscall.SockFilter

// filter lets everything pass but new sockets; a call of an ABI that is not in the list does not exist.
func filter(abis []abi) program {
	made := program{{Code: load, K: archOffset}}
	for _, one := range abis {
		body := one.body()
		made = append(made, syscall.SockFilter{Code: equal, Jf: uint8(len(body)), K: one.arch})
		made = append(made, body...)
	}
	return append(made, syscall.SockFilter{Code: give, K: noSuchCall})
}

func (a abi) body() program {
	made := program{{Code: load, K: numberOffset}}
	if a.foreign != 0 {
		made = append(made, syscall.SockFilter{Code: atLeast, Jf: 1, K: a.foreign}, syscall.SockFilter{Code: give, K: noSuchCall})
	}
	for _, number := range ioUring {
		made = append(made, syscall.SockFilter{Code: equal, Jf: 1, K: number}, syscall.SockFilter{Code: give, K: refuse})
	}
	for _, number := range a.makers {
		made = append(made,
			syscall.SockFilter{Code: equal, Jf: 4, K: number},
			syscall.SockFilter{Code: load, K: argument0},
			syscall.SockFilter{Code: equal, Jf: 1, K: syscall.AF_UNIX},
			syscall.SockFilter{Code: give, K: allow},
			syscall.SockFilter{Code: give, K: refuse})
	}
	if a.socketcall != 0 {
		// Its family lies in memory, where a filter cannot look and another thread may write.
		made = append(made,
			syscall.SockFilter{Code: equal, Jf: 5, K: a.socketcall},
			syscall.SockFilter{Code: load, K: argument0},
			syscall.SockFilter{Code: equal, Jt: 2, K: socketcallSocket},
			syscall.SockFilter{Code: equal, Jt: 1, K: socketcallSocketpair},
			syscall.SockFilter{Code: give, K: allow},
			syscall.SockFilter{Code: give, K: refuse})
	}
	return append(made, syscall.SockFilter{Code: give, K: allow})
}
