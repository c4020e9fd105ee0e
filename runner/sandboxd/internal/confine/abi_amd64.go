package confine

var machine = []abi{
	{arch: 0xc000003e, makers: []uint32{41, 53}, foreign: 0x40000000}, // x86_64 and x32
	{arch: 0x40000003, makers: []uint32{359, 360}, socketcall: 102},   // i386
}
