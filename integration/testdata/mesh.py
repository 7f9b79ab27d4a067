"""Workers that meet at every step through rank 0, as a collective does: when one of them goes, the others
fail with a broken connection. Rank BAD ends in the way that HOW says, at step 3."""
import json, os, signal, socket, struct, sys, time, traceback

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
bad, how = int(os.environ["BAD"]), os.environ["HOW"]
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def record(error):
    """What torch's @record writes, and it lets the exception go on."""
    text = "".join(traceback.format_exception(error))
    message = {"message": f"{type(error).__name__}: {error}",
               "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))}}
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as f:
        json.dump({"message": message}, f)


def take(s):
    data = s.recv(4)
    if not data:
        raise RuntimeError(f"Connection closed by peer [{at[0]}]:{at[1]}")
    return data


def meet():
    if rank == 0:
        server = socket.create_server(at)
        return [server.accept()[0] for _ in range(size - 1)]
    while True:
        try:
            return [socket.create_connection(at)]
        except ConnectionRefusedError:
            time.sleep(0.01)


def end():
    if how == "exit":
        os._exit(3)
    if how == "raise":
        raise ValueError("bad batch")
    if how == "sysexit":
        print("no data left", file=sys.stderr)
        sys.exit(3)
    os.kill(os.getpid(), getattr(signal, how))


def step(peers, n):
    if rank == bad and n == 3:
        end()
    if rank == 0:
        for p in peers:
            take(p)
        for p in peers:
            p.sendall(struct.pack("i", n))
    else:
        peers[0].sendall(struct.pack("i", n))
        take(peers[0])


def main():
    peers = meet()
    for n in range(1000):
        step(peers, n)
        time.sleep(0.01)


try:
    main()
except Exception as error:
    if os.environ.get("RECORD"):
        record(error)
    raise
