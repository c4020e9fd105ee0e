package confine

var machine = []abi{
	{arch: 0xc00000b7, makers: []uint32{198, 199}}, // arm64
	{arch: 0x40000028, makers: []uint32{281, 288}}, // arm
}
