# SPDX-License-Identifier: Apache-2.0
"""The package: what it does, and what it leaves alone. usage: package.py PYTHON_FOLDER LIBRARY"""
import os
import subprocess
import sys


def run(code, **given):
  folder, library = sys.argv[1:3]
  env = dict(os.environ, PYTHONPATH=folder, JAX_TESSERA_LIBRARY=library)
  for name in ("JAX_PLATFORMS", "XLA_FLAGS", "PJRT_NAMES_AND_LIBRARY_PATHS"):
    env.pop(name, None)
  env.update(given)
  done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
  return done.returncode, done.stdout + done.stderr


def expect(what, condition, text):
  print(f"{'ok    ' if condition else 'FAILED'} package: {what}")
  if not condition:
    print(text)
    sys.exit(1)


VERSION = "import jax; print(jax.devices()[0].client.platform_version, len(jax.devices()))"

code, text = run(VERSION)
expect("nothing changes unless it is asked for", code == 0 and "tessera" not in text, text)
code, text = run(VERSION, JAX_PLATFORMS="tessera")
expect("JAX_PLATFORMS=tessera", code == 0 and "tessera 1" in text, text)
code, text = run(VERSION, JAX_PLATFORMS="tessera", JAX_TESSERA_DEVICES="8")
expect("JAX_TESSERA_DEVICES", code == 0 and "tessera 8" in text, text)
code, text = run("import jax; jax.config.update('jax_num_cpu_devices', 4); " + VERSION,
                 JAX_PLATFORMS="tessera")
expect("jax_num_cpu_devices", code == 0 and "tessera 4" in text, text)
code, text = run(VERSION, JAX_PLATFORMS="tessera", JAX_TESSERA_DEVICES="many")
expect("a number of devices that is none", code != 0 and "JAX_TESSERA_DEVICES" in text, text)
code, text = run(VERSION, JAX_PLATFORMS="tessera", JAX_TESSERA_LIBRARY="/nowhere.so")
expect("a library that isn't there", code != 0 and "/nowhere.so" in text, text)
