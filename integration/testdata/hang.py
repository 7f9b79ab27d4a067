"""Workers that meet at every step over sockets. Rank BAD hangs at step 3 in the way that HOW says; the others
wait for it. With HELPER it uses the Python helper, which answers for it."""
import json, os, queue, signal, socket, struct, sys, threading, time

if os.environ.get("HELPER"):
    import elastic

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
bad, how = int(os.environ["BAD"]), os.environ["HOW"]
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def take(s):
    data = s.recv(4)
    if not data:
        raise RuntimeError("Connection closed by peer")


def meet():
    if rank == 0:
        server = socket.create_server(at)
        return [server.accept()[0] for _ in range(size - 1)]
    while True:
        try:
            return [socket.create_connection(at)]
        except ConnectionRefusedError:
            time.sleep(0.01)


def all_reduce(peers, n):
    if rank == 0:
        for p in peers:
            take(p)
        for p in peers:
            p.sendall(struct.pack("i", n))
    else:
        peers[0].sendall(struct.pack("i", n))
        take(peers[0])


def barrier():
    threading.Event().wait()


def load():
    return queue.Queue().get()


def lock():
    mutex = threading.Lock()
    mutex.acquire()
    mutex.acquire()


def save():
    os.mkfifo(f"save.{rank}")
    open(f"save.{rank}", "w")  # never read


def step(peers, n):
    if rank == bad and n == 3 and int(os.environ["ELASTIC_GENERATION"]) == 1:
        if how == "skip":
            barrier()
        elif how == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        else:
            {"load": load, "lock": lock, "save": save}[how]()
    all_reduce(peers, n)


peers = meet()
for n in range(6):
    step(peers, n)
print("through", flush=True)
