"""A program for inside a sandbox: tries every door to a network socket and prints what came of each as JSON."""

DOORS = r"""
import ctypes, errno, json, mmap, os, platform, socket, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
tried = {}
def attempt(name, action):
    try:
        made = action()
        tried[name] = "made"
        if isinstance(made, socket.socket):
            made.close()
    except OSError as error:
        tried[name] = errno.errorcode[error.errno]
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result
for family in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK", "AF_PACKET"):
    attempt(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("io_uring", lambda: call(425, 0, 0))
def in_a_thread():
    worker = threading.Thread(target=lambda: attempt("thread", lambda: socket.socket()))
    worker.start()
    worker.join()
in_a_thread()
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
def unix_pair():
    one, other = socket.socketpair()
    one.sendall(b"x")
    assert other.recv(1) == b"x"
attempt("unix pair", unix_pair)
if platform.machine() == "x86_64":
    attempt("x32", lambda: call(0x40000000 + 41, socket.AF_INET, socket.SOCK_STREAM, 0))
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    def door_of_i386(number, first, second):
        page.seek(0)
        page.write(b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", first))
        page.write(b"\xb9" + struct.pack("<I", second) + b"\x31\xd2\xcd\x80\x5b\xc3")
        result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
        if result < 0:
            raise OSError(-result, "")
    attempt("i386 socket", lambda: door_of_i386(359, socket.AF_INET, socket.SOCK_STREAM))
    attempt("i386 unix", lambda: door_of_i386(359, socket.AF_UNIX, socket.SOCK_STREAM))
    attempt("i386 socketcall", lambda: door_of_i386(102, 1, 0))
print(json.dumps(tried))
"""
REFUSED = ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_VSOCK", "AF_PACKET", "raw", "io_uring", "thread")
"""Doors that must answer EACCES; those of x86 beside them: "x32" ENOSYS, "i386 socket" and "i386 socketcall" EACCES."""
STILL_WORK = ("unix", "unix pair")
