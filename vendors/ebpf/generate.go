package ebpf

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -cflags "-O2 -Wall -Werror -mcpu=v3" -target bpfel -type port -type signal -type state -type stats -type record plane csig.bpf.c
