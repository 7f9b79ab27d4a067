"""A worker's process, started before its World is known.

The agent starts the worker's own command with this directory first in PYTHONPATH. Python
imports this module before the script. It imports what the script will import first, waits for
the World, puts the environment in place, and removes itself. Then Python runs the script as usual.

The process ends, and the agent starts a new one, if something cannot be as in a process that was
started now: a variable that a library has read at its import and that has another value now, a
module of the user that an import ran, or a device that an import opened.

Only imports are made that the script makes before any other statement that could change what
they do. Modules of the user are read for their imports and not run.
"""

import ast
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig

HERE = os.path.dirname(os.path.abspath(__file__))
VARIABLE = "ELASTIC_WARM"
"""FD:script:PATH or FD:module:NAME: the socket to the guardian, and what Python is to run."""

HARMLESS_CALLS = {"getLogger", "TypeVar", "ParamSpec", "NewType", "namedtuple"}
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/davinci")
CAP_SYS_NICE = 23

LATER = {"torch": "torch._dynamo"}
"""What libraries import when a model or an optimizer is made: half of the time of a start of torch."""


class Stop(Exception):
    """What follows may depend on what the script does here."""


class Missing(Exception):
    """The script imports a module that does not exist."""


class Reads(dict):
    """The variables of os.environ, noting which were read, and which were set."""

    def __init__(self, data):
        super().__init__(data)
        self.first = dict(data)
        self.names = set()
        self.given = {}  # by name; None: it was removed

    def __setitem__(self, name, value):
        self.given[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name):
        self.given[name] = None
        super().__delitem__(name)

    def __getitem__(self, name):
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name, default=None):
        self.names.add(name)
        return super().get(name, default)

    def __contains__(self, name):
        self.names.add(name)
        return super().__contains__(name)

    def __iter__(self):
        self.names.update(self.keys())
        return super().__iter__()


class Imports:
    """The imports that a script makes first, of modules that are installed."""

    def __init__(self, first):
        self.first = first  # the directory that is searched first; None: none is
        self.found = []  # (statement, file, module)
        self.visited = set()
        self.configures = False  # the user's code has to do with variables of torch
        base = sysconfig.get_paths()
        self.installed_in = [os.path.realpath(base[k]) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib")]

    def installed(self, path):
        real = os.path.realpath(path)
        parts = real.split(os.sep)
        return (
            "site-packages" in parts
            or "dist-packages" in parts
            or any(real.startswith(p) for p in self.installed_in)
        )

    def read(self, path, module):
        """Find the imports of a file."""
        if path in self.visited:
            return
        self.visited.add(path)
        with open(path, "rb") as file:
            text = file.read()
        self.configures = self.configures or b"environ" in text and b"TORCH" in text
        tree = ast.parse(text, path)
        package = module if os.path.basename(path) == "__init__.py" else module.rpartition(".")[0]
        self.walk(tree.body, (path, module, package))

    def walk(self, statements, at):
        for s in statements:
            if isinstance(s, ast.Import):
                for alias in s.names:
                    self.reach(alias.name, ast.copy_location(ast.Import(names=[alias]), s), at)
            elif isinstance(s, ast.ImportFrom):
                self.reach(absolute(s, at[2]), s, at)
            elif isinstance(s, (ast.Try, getattr(ast, "TryStar", ast.Try))):
                self.attempt(s, at)
            elif isinstance(s, ast.If):
                self.branch(s, at)
            elif not harmless(s):
                raise Stop

    def attempt(self, s, at):
        if not all(harmless(x) for h in s.handlers for x in h.body):
            raise Stop
        try:
            self.walk(s.body, at)
        except Missing:
            self.walk(s.finalbody, at)
        else:
            self.walk(s.orelse + s.finalbody, at)

    def branch(self, s, at):
        name = getattr(s.test, "attr", getattr(s.test, "id", None))
        if name == "TYPE_CHECKING":
            self.walk(s.orelse, at)
        elif is_main(s.test):
            self.walk(s.body if at[1] == "__main__" else s.orelse, at)
        else:
            raise Stop

    def reach(self, name, statement, at):
        """Note an import of an installed module, or read a module of the user."""
        top = name.partition(".")[0]
        if top in sys.builtin_module_names or top == "__future__":
            return
        spec = importlib.machinery.PathFinder.find_spec(top, self.path()) or frozen(top)
        if spec is None:
            raise Missing
        places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or [])
        if not places or all(self.installed(p) for p in places):
            self.found.append((statement, at[0], at[1]))
        elif not all(p.startswith(os.path.dirname(HERE) + os.sep) for p in places):
            self.follow(name, statement)

    def follow(self, name, statement):
        """Read a module of the user, the packages around it, and those that are taken from it."""
        parts, path = name.split("."), self.path()
        for i in range(len(parts)):
            path = self.enter(".".join(parts[: i + 1]), path)
        for alias in getattr(statement, "names", []) if isinstance(statement, ast.ImportFrom) else []:
            if path and importlib.machinery.PathFinder.find_spec(name + "." + alias.name, path):
                self.enter(name + "." + alias.name, path)

    def enter(self, name, path):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None:
            raise Missing
        if spec.has_location:
            if not spec.origin.endswith(".py"):
                raise Stop
            self.read(spec.origin, name)
        return spec.submodule_search_locations

    def path(self):
        return ([self.first] if self.first else []) + sys.path

    def make(self):
        """Make the imports, as the script will."""
        if self.first:
            sys.path.insert(0, self.first)
        try:
            for statement, file, module in self.found:
                code = compile(ast.Module(body=[statement], type_ignores=[]), file, "exec", dont_inherit=True)
                exec(code, {"__name__": module, "__file__": file})
            for library, later in LATER.items():
                if library in sys.modules and not self.configures:
                    importlib.import_module(later)
        except Exception:  # the script meets it, too
            pass
        finally:
            if self.first:
                sys.path.remove(self.first)

    def ran(self, before):
        """Whether an import ran a module that is not installed."""
        files = [getattr(sys.modules[n], "__dict__", {}).get("__file__") for n in set(sys.modules) - before]
        return any(f and os.path.isabs(f) and not self.installed(f) for f in files)


def absolute(s, package):
    """The module that `from … import` names."""
    if not s.level:
        return s.module
    parts = package.split(".")
    if not package or s.level > len(parts):
        raise Stop
    base = parts[: len(parts) - s.level + 1]
    return ".".join(base + ([s.module] if s.module else []))


def frozen(name):
    return importlib.machinery.FrozenImporter.find_spec(name)


def is_main(test):
    """Whether it is `__name__ == "__main__"`."""
    return (
        isinstance(test, ast.Compare)
        and getattr(test.left, "id", None) == "__name__"
        and isinstance(test.ops[0], ast.Eq)
        and getattr(test.comparators[0], "value", None) == "__main__"
    )


def harmless(s):
    """Whether a statement cannot change what a later import does."""
    if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Pass, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(s, ast.ClassDef):
        return all(harmless(x) for x in s.body)
    if isinstance(s, ast.Expr):
        return isinstance(s.value, ast.Constant)
    if isinstance(s, (ast.Assign, ast.AnnAssign)):
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        return all(isinstance(t, ast.Name) for t in targets) and (s.value is None or quiet(s.value))
    return False


def quiet(value):
    """Whether an expression calls nothing that could do something."""
    for x in ast.walk(value):
        if isinstance(x, ast.Call):
            name = getattr(x.func, "attr", getattr(x.func, "id", None))
            if name not in HARMLESS_CALLS:
                return False
        elif isinstance(x, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
    return True


class Aside:
    """Holds back what is written while the process waits, until it goes on."""

    def __init__(self):
        one = os.fstat(1).st_ino == os.fstat(2).st_ino
        first = os.memfd_create("output")
        self.held = [(1, os.dup(1), first), (2, os.dup(2), os.dup(first) if one else os.memfd_create("errors"))]
        self.one = one
        for fd, _, aside in self.held:
            os.dup2(aside, fd)

    def restore(self):
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, real, aside in self.held:
            os.dup2(real, fd)
            if fd == 1 or not self.one:
                os.lseek(aside, 0, os.SEEK_SET)
                write(fd, read_all(aside))
            os.close(real)
        for _, _, aside in self.held:
            os.close(aside)


class Modesty:
    """While this process waits, others get the processors first, and this one is killed first if memory is short."""

    def __init__(self):
        self.score = swap("/proc/self/oom_score_adj", b"1000\n")
        self.name = swap("/proc/self/comm", b"elastic-warm")
        self.priority = None
        if may_raise_priority():
            self.priority = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, 0, min(19, self.priority + 10))

    def restore(self):
        swap("/proc/self/oom_score_adj", self.score)
        swap("/proc/self/comm", self.name)
        if self.priority is not None:
            for thread in os.listdir("/proc/self/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), self.priority)


def may_raise_priority():
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16) >> CAP_SYS_NICE & 1
    return False


def swap(path, value):
    with open(path, "r+b", buffering=0) as file:
        old = file.read().strip()
        file.seek(0)
        file.write(value)
    return old


def read_all(fd, length=None):
    """length bytes, or all there is; fewer at the end."""
    parts = []
    while length is None or length > 0:
        part = os.read(fd, min(length or 1 << 20, 1 << 20))
        if not part:
            break
        parts.append(part)
        length = None if length is None else length - len(part)
    return b"".join(parts)


def write(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def has_device():
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith(DEVICES):
                return True
        except OSError:  # the one of listdir
            pass
    return False


def own_site(before):
    """Import the sitecustomize that Python would have imported, if there is one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None:
        return False
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        del sys.modules["sitecustomize"]
    before.update(sys.modules)
    return "sitecustomize" in sys.modules


def prepare(kind, name):
    """Make the imports; false: this process cannot replace one that starts now."""
    if kind == "module":
        first, spec = os.getcwd(), None
        path = [first] + sys.path
        for i in range(name.count(".") + 1):
            spec = importlib.machinery.PathFinder.find_spec(".".join(name.split(".")[: i + 1]), path)
            path = spec.submodule_search_locations
        script = spec.origin
        if path is not None:  # a package: its __main__ is run
            script = os.path.join(os.path.dirname(script), "__main__.py")
    else:
        script = os.path.realpath(name)
        first = os.path.dirname(script)
    if getattr(sys.flags, "safe_path", False):
        first = None
    imports, before = Imports(first), set(sys.modules)
    try:
        imports.read(script, "__main__")
    except (Stop, Missing):
        pass
    imports.make()
    return not imports.ran(before) and not has_device()


def take_over(fd, reads):
    """Wait for the World; returns the variables, or does not return."""
    os.write(fd, b"w")
    length = read_all(fd, 4)
    data = read_all(fd, int.from_bytes(length, "big"))
    if len(length) < 4 or len(data) < int.from_bytes(length, "big"):
        os._exit(0)  # the guardian is gone
    variables = dict(v.split(b"=", 1) for v in data.split(b"\0") if b"=" in v)
    if b"LC_CTYPE" in reads.first:  # Python sets it where no locale is
        variables.setdefault(b"LC_CTYPE", reads.first[b"LC_CTYPE"])
    changed = {n for n in reads.names if reads.first.get(n) != variables.get(n)}
    if changed - {VARIABLE.encode(), b"PYTHONPATH"}:
        os._exit(0)
    variables.update(reads.given)  # as the imports would have done now
    return {name: value for name, value in variables.items() if value is not None}


def put(variables, data):
    """Make the environment what it would have been from the start."""
    os.environ._data = os.environb._data = dict(data)
    for name in set(os.environb) - set(variables):
        del os.environb[name]
    for name, value in variables.items():
        if os.environb.get(name) != value:
            os.environb[name] = value
    posix = sys.modules["posix"]
    posix.environ.clear()
    posix.environ.update(variables)


def main():
    fd, kind, name = os.environ[VARIABLE].split(":", 2)
    fd = int(fd)
    os.set_inheritable(fd, False)
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE]
    sys.path_importer_cache.pop(HERE, None)
    modesty, aside = Modesty(), Aside()
    reads = Reads(os.environ._data)
    os.environ._data = os.environb._data = reads
    before = set(sys.modules)
    known = own_site(before)
    user = sys.modules["site"].ENABLE_USER_SITE
    if user and importlib.machinery.PathFinder.find_spec("usercustomize", sys.path):
        os._exit(0)
    if not prepare(kind, name):
        os._exit(0)
    variables = take_over(fd, reads)
    put(variables, reads)
    modesty.restore()
    write(fd, b"y")
    if read_all(fd, 1) != b"g":
        os._exit(0)
    os.close(fd)
    aside.restore()
    watch = sys.modules.get("_elastic_watch")
    if watch is not None:
        watch.begin()
    return known


_known = False
try:
    _known = main()
except BaseException:
    os._exit(0)  # the script must not run without its World
if not _known:
    raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
