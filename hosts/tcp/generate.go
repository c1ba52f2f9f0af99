package tcp

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -cflags "-O2 -Wall -Werror -mcpu=v3 -I../../vendors/ebpf" -target bpfel -type flow -type reading -type ends -type prefix -type counts -type entry -type control_counts -type datagram_flow tcp tcp.bpf.c

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -cflags "-O2 -Wall -Werror -mcpu=v3 -I../../vendors/ebpf" -no-global-types -target bpfel control control.bpf.c
