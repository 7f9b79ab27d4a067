"""What the names of the programs do where this wheel has no programs for the machine."""

import platform
import sys


def main() -> None:
    name = sys.argv[0].replace("\\", "/").rpartition("/")[2]
    sys.exit(
        f"{name}: this wheel has only `import elastic`. The programs elastic, elasticd and elastic-demo run on "
        f"Linux, x86_64 or aarch64 (this is {platform.system()} {platform.machine()}); install the wheel of such "
        "a machine there: its name ends in manylinux… or musllinux…"
    )
