# SPDX-License-Identifier: Apache-2.0
"""JAX on Tessera: a PJRT plugin.

With JAX_PLATFORMS=tessera in the environment, Tessera takes the place of JAX's backend for CPUs;
without it nothing changes. Options are read from the environment:

  JAX_TESSERA_DEVICES   how many devices there are; else jax_num_cpu_devices, else what XLA_FLAGS
                        says with --xla_force_host_platform_device_count, else 1
  JAX_TESSERA_LIBRARY  another library than the one of this package

Programs that mpirun or srun starts several times run as one, in which each process has so many
devices.
"""

import ctypes
import logging
import os
import pathlib
import re

NAME = "tessera"
_logger = logging.getLogger(__name__)


def library_path():
  """The file of the plugin."""
  chosen = os.environ.get("JAX_TESSERA_LIBRARY")
  if chosen:
    return chosen
  return str(pathlib.Path(__file__).resolve().parent / "libtessera-pjrt.so")


def device_count():
  """How many devices the client is to have."""
  given = os.environ.get("JAX_TESSERA_DEVICES")
  if given:
    try:
      count = int(given)
    except ValueError:
      count = 0
    if count < 1:
      raise ValueError(f"JAX_TESSERA_DEVICES is {given!r}; valid: a number of devices, from 1")
    return count
  import jax
  count = getattr(jax.config, "jax_num_cpu_devices", None)
  if count is not None and count > 0:
    return int(count)
  flags = os.environ.get("XLA_FLAGS", "")
  found = re.findall(r"--xla_force_host_platform_device_count=(\d+)", flags)
  return max(1, int(found[-1])) if found else 1


def is_wanted():
  """Whether the program asked for Tessera."""
  import jax
  platforms = jax.config.jax_platforms or ""
  return NAME in [p.strip() for p in platforms.split(",")]


def _pointer(capsule):
  if capsule is None:
    return None
  api = ctypes.pythonapi
  api.PyCapsule_GetName.restype = ctypes.c_char_p
  api.PyCapsule_GetName.argtypes = [ctypes.py_object]
  api.PyCapsule_GetPointer.restype = ctypes.c_void_p
  api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
  return api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))


def _forward_handlers(path):
  """Gives handlers that JAX registers for CPUs to the plugin."""
  from jaxlib import xla_client
  library = ctypes.CDLL(path)
  register = library.TesseraRegisterHandler
  register.restype = ctypes.c_char_p
  register.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 4
  register_type = library.TesseraRegisterType
  register_type.restype = ctypes.c_char_p
  register_type.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]

  def handler(name, function, platform, api_version=1, traits=0):
    del platform, traits
    if api_version != 1:
      _logger.debug("the handler %s is of the untyped interface and isn't passed on", name)
      return
    stages = function if isinstance(function, dict) else {"execute": function}
    text = name if isinstance(name, bytes) else name.encode()
    failure = register(text, *[_pointer(stages.get(stage)) for stage in
                               ("instantiate", "prepare", "initialize", "execute")])
    if failure is not None:
      raise ValueError(failure.decode())

  def types(name, registration, *rest):
    del rest
    both = registration if isinstance(registration, dict) else {"type_id": registration}
    text = name if isinstance(name, bytes) else name.encode()
    failure = register_type(text, _pointer(both["type_id"]), _pointer(both.get("type_info")))
    if failure is not None:
      raise ValueError(failure.decode())

  xla_client.register_custom_call_handler("cpu", handler)
  for attribute in ("register_custom_type_handler", "register_custom_type_id_handler"):
    if hasattr(xla_client, attribute):
      getattr(xla_client, attribute)("cpu", types)
      break


def initialize():
  """Called by JAX before it makes its backends."""
  if not is_wanted():
    return
  import jax
  from jax._src import xla_bridge
  path = library_path()
  if not os.path.exists(path):
    raise RuntimeError(f"{path} isn't there: the package jax-tessera is incomplete, or "
                       "JAX_TESSERA_LIBRARY names no file")
  # Under the name of CPUs, so that programs and libraries that ask for these find them.
  known = getattr(xla_bridge, "_nonexperimental_plugins", None)
  if isinstance(known, set):
    known.add("cpu")
  xla_bridge.register_plugin("cpu", library_path=path, priority=1000,
                             options={"cpu_device_count": device_count()})
  platforms = [p.strip() for p in jax.config.jax_platforms.split(",")]
  names = ["cpu" if p == NAME else p for p in platforms]
  jax.config.update("jax_platforms", ",".join(dict.fromkeys(names)))
  _forward_handlers(path)
