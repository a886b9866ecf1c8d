// SPDX-License-Identifier: Apache-2.0
// Python's functions as handlers: jax.pure_callback, io_callback and debug.print. Python's own
// interface is looked up in the process, so that nothing depends on it.
#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "src/ir/analysis/device_computations.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hooks.h"
#include "src/pjrt/dtypes.h"
#include "src/pjrt/ffi/handlers.h"
#include "src/pjrt/ffi/host.h"
#include "src/pjrt/ffi/python_lock.h"
#include "src/pjrt/run_queue.h"

namespace tessera::pjrt::ffi {
namespace {

using PyObject = void;

/// The functions of Python that are called.
struct Python {
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  PyObject* (*module)(const char*) = nullptr;
  PyObject* (*dict)(PyObject*) = nullptr;
  PyObject* (*run)(const char*, int, PyObject*, PyObject*) = nullptr;
  PyObject* (*item)(PyObject*, const char*) = nullptr;
  PyObject* (*call)(PyObject*, ...) = nullptr;
  PyObject* (*list)(std::ptrdiff_t) = nullptr;
  int (*list_set)(PyObject*, std::ptrdiff_t, PyObject*) = nullptr;
  PyObject* (*list_at)(PyObject*, std::ptrdiff_t) = nullptr;
  std::ptrdiff_t (*list_size)(PyObject*) = nullptr;
  PyObject* (*tuple_of_1)(const char*, ...) = nullptr;  // Py_BuildValue
  PyObject* (*bytes)(const char*, std::ptrdiff_t) = nullptr;
  int (*bytes_of)(PyObject*, char**, std::ptrdiff_t*) = nullptr;
  const char* (*text)(PyObject*) = nullptr;
  void* (*pointer_of)(PyObject*) = nullptr;
  void (*clear)() = nullptr;
  void (*decrement)(PyObject*) = nullptr;
  bool complete = true;

  Python() {
    find(&ensure, "PyGILState_Ensure");
    find(&release, "PyGILState_Release");
    find(&module, "PyImport_AddModule");
    find(&dict, "PyModule_GetDict");
    find(&run, "PyRun_String");
    find(&item, "PyDict_GetItemString");
    find(&call, "PyObject_CallFunctionObjArgs");
    find(&list, "PyList_New");
    find(&list_set, "PyList_SetItem");
    find(&list_at, "PyList_GetItem");
    find(&list_size, "PyList_Size");
    find(&tuple_of_1, "Py_BuildValue");
    find(&bytes, "PyBytes_FromStringAndSize");
    find(&bytes_of, "PyBytes_AsStringAndSize");
    find(&text, "PyUnicode_AsUTF8");
    find(&pointer_of, "PyLong_AsVoidPtr");
    find(&clear, "PyErr_Clear");
    find(&decrement, "Py_DecRef");
  }
  template <class F>
  void find(F* function, const char* name) {
    void* const symbol = dlsym(RTLD_DEFAULT, name);
    std::memcpy(function, &symbol, sizeof(symbol));
    complete = complete && symbol != nullptr;
  }
};

// Arrays are copies: functions may keep them. A result is a list of bytes, or the text of an error.
constexpr const char* kCaller = R"py(
import numpy as _np

def _dtype(name):
  try:
    return _np.dtype(name)
  except TypeError:
    import ml_dtypes
    return _np.dtype(getattr(ml_dtypes, name))

def _array(given):
  if given is None:
    return None
  data, name, shape = given
  return _np.ndarray(tuple(shape), _dtype(name), buffer=data)

def _tessera_call(function, arguments, results):
  try:
    out = function(*map(_array, arguments))
    if not isinstance(out, tuple):
      return f'expected a tuple, and got {type(out)}'
    if len(out) != len(results):
      return f'the function returned {len(out)} values where {len(results)} were expected'
    made = []
    for value, expected in zip(out, results):
      if expected is None:
        made.append(b'')
        continue
      name, shape = expected
      value = _np.asarray(value)
      if value.shape != tuple(shape) or value.dtype.itemsize != _dtype(name).itemsize:
        return (f'a result is {value.dtype}{list(value.shape)} and was declared '
                f'as {name}{list(shape)}')
      made.append(value.tobytes())
    return made
  except BaseException as e:
    import traceback
    return ''.join(traceback.format_exception(type(e), e, e.__traceback__))
)py";

/// As numpy, or ml_dtypes for it, names the type; empty if neither has it.
std::string numpy_name(DType dtype) {
  const std::string own(name(dtype));
  if (dtype == DType::pred) return "bool";
  if (dtype == DType::bf16) return "bfloat16";
  if (is_signed_integer(dtype)) return "int" + own.substr(1);
  if (is_unsigned_integer(dtype)) return "uint" + own.substr(1);
  if (is_complex(dtype)) return "complex" + own.substr(1);
  if (dtype == DType::token) return {};
  const std::size_t exponent = own.find('e');
  if (exponent == std::string::npos) return "float" + own.substr(1);
  return "float" + own.substr(1, exponent - 1) + "_" + own.substr(exponent);
}

DType dtype_of(const XLA_FFI_Buffer& b) {
  return dtype_of_primitive(b.dtype).value_or(DType::token);
}

/// What jaxlib gives to each run: the functions of the program.
struct Functions {
  void** callbacks;
  std::uint32_t count;
};

XLA_FFI_Error* error(std::string message, std::uint32_t code = 13) {
  return new XLA_FFI_Error{std::move(message), code};
}

/// Holds the interpreter's lock, and drops references at its end.
class Session {
 public:
  explicit Session(const Python& python) : python_(python), state_(python.ensure()) {}
  ~Session() {
    for (PyObject* o : owned_) python_.decrement(o);
    python_.release(state_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  PyObject* own(PyObject* o) {
    if (o != nullptr) owned_.push_back(o);
    return o;
  }

 private:
  const Python& python_;
  int state_;
  std::vector<PyObject*> owned_;
};

/// What calls functions, from kCaller; null if Python has no numpy.
PyObject* caller(const Python& p, Session* session) {
  constexpr int kFile = 257;  // Py_file_input
  PyObject* const names = p.dict(p.module("_tessera_pjrt"));
  if (PyObject* const found = p.item(names, "_tessera_call")) return found;
  PyObject* const done = session->own(p.run(kCaller, kFile, names, names));
  if (done == nullptr) p.clear();
  return p.item(names, "_tessera_call");
}

PyObject* shape_of(const Python& p, const XLA_FFI_Buffer& b) {
  PyObject* const dims = p.list(std::ptrdiff_t(b.rank));
  for (std::int64_t d = 0; d < b.rank; ++d) {
    p.list_set(dims, std::ptrdiff_t(d), p.tuple_of_1("L", static_cast<long long>(b.dims[d])));
  }
  return dims;
}

std::size_t byte_count(const XLA_FFI_Buffer& b) {
  std::size_t n = byte_size(dtype_of(b));
  for (std::int64_t d = 0; d < b.rank; ++d) n *= std::size_t(b.dims[d]);
  return n;
}

const XLA_FFI_Buffer& buffer(const XLA_FFI_Args& args, std::int64_t i) {
  return *static_cast<const XLA_FFI_Buffer*>(args.args[i]);
}

/// The list of operands with values, or of results without.
PyObject* described(const Python& p, const XLA_FFI_Args& all, bool values) {
  PyObject* const out = p.list(std::ptrdiff_t(all.size));
  for (std::int64_t i = 0; i < all.size; ++i) {
    const XLA_FFI_Buffer& b = buffer(all, i);
    PyObject* entry = nullptr;
    if (dtype_of(b) == DType::token) {
      entry = p.tuple_of_1("");  // None
    } else if (values) {
      PyObject* const bytes =
          p.bytes(static_cast<const char*>(b.data), std::ptrdiff_t(byte_count(b)));
      entry = p.tuple_of_1("(NsN)", bytes, numpy_name(dtype_of(b)).c_str(), shape_of(p, b));
    } else {
      entry = p.tuple_of_1("(sN)", numpy_name(dtype_of(b)).c_str(), shape_of(p, b));
    }
    p.list_set(out, std::ptrdiff_t(i), entry);
  }
  return out;
}

XLA_FFI_Error* take(const Python& p, PyObject* made, const XLA_FFI_Args& rets) {
  for (std::int64_t k = 0; k < rets.size; ++k) {
    const XLA_FFI_Buffer& b = buffer(rets, k);
    if (dtype_of(b) == DType::token) continue;
    char* bytes = nullptr;
    std::ptrdiff_t size = 0;
    PyObject* const item = p.list_at(made, std::ptrdiff_t(k));
    if (item == nullptr || p.bytes_of(item, &bytes, &size) != 0 ||
        std::size_t(size) != byte_count(b)) {
      p.clear();
      return error("a result of a function of Python has the wrong size");
    }
    if (size > 0) std::memcpy(b.data, bytes, std::size_t(size));
  }
  return nullptr;
}

XLA_FFI_Error* call_function(const XLA_FFI_CallFrame& frame, const Functions& functions,
                             std::uint64_t index) {
  static const Python p;
  if (!p.complete || !python_runs()) {
    return error("this program calls a function of Python, which is not in this process", 9);
  }
  Session session(p);
  PyObject* const call = caller(p, &session);
  if (call == nullptr) return error("functions of Python can't be called without numpy", 9);
  PyObject* const args = session.own(described(p, frame.args, true));
  PyObject* const rets = session.own(described(p, frame.rets, false));
  PyObject* const made = session.own(p.call(call, functions.callbacks[index], args, rets, nullptr));
  if (made == nullptr) {
    p.clear();
    return error("CpuCallback error calling callback: the call failed");
  }
  if (p.list_size(made) >= 0) return take(p, made, frame.rets);
  p.clear();
  const char* const text = p.text(made);
  return error(std::string("CpuCallback error calling callback: ") +
               (text == nullptr ? "an error without text" : text));
}

XLA_FFI_Error* python_callback(XLA_FFI_CallFrame* frame) {
  if (const auto* extension = frame->extension_start;
      extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* const metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = 0;
    metadata->api_version.minor_version = 3;
    return nullptr;
  }
  const UserData* const data = frame->ctx->data;
  // Whatever number jaxlib has given to the type, this is all that JAX gives to runs.
  if (data == nullptr || data->empty()) {
    return error("the run was given no functions of Python", 9);
  }
  const auto& functions = *static_cast<const Functions*>(data->front().second);
  std::uint64_t index = functions.count;
  for (std::int64_t k = 0; k < frame->attrs.size; ++k) {
    const XLA_FFI_ByteSpan& name = *frame->attrs.names[k];
    if (std::string_view(name.ptr, name.len) != "index") continue;
    const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[k]);
    if (byte_size(dtype_of_primitive(scalar.dtype).value_or(DType::pred)) == 8)
      std::memcpy(&index, scalar.value, 8);
  }
  if (index >= functions.count) {
    return error("there is no function with the index that the call has", 3);
  }
  try {
    return call_function(*frame, functions, index);
  } catch (const std::exception& e) {
    return error(e.what());
  }
}

constexpr const char* kWhole = "xla_ffi_python_cpu_callback";
/// Functions that are called with what a device has of each array.
constexpr const char* kParts = "xla_ffi_partitioned_python_cpu_callback";

/// Functions that are given the memory of arrays, and write results there: jaxlib has a handler for
/// them, which makes objects of its own of a call's frame.
constexpr const char* kBuffers = "xla_buffer_python_cpu_callback";

/// The functions that jaxlib gives to handlers.
const XLA_FFI_Api* api_of_jaxlib = nullptr;

/// Called by jaxlib as it is asked to register this. It then refuses, for want of a version, and
/// nothing stays behind.
XLA_FFI_Error* take_api(XLA_FFI_CallFrame* frame) {
  api_of_jaxlib = frame->api;
  return nullptr;
}

/// That handler; null if there is no jaxlib that has it.
XLA_FFI_Handler* handler_of_jaxlib() {
  static const Python p;
  if (!p.complete || !python_runs()) return nullptr;
  static constexpr const char* kFind = R"py(
def _find(name, probe):
  import ctypes
  from jaxlib import xla_client
  get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
  get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
  new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
  try:
    xla_client._xla.register_custom_call_target(
        'tessera_probe', {'execute': new(probe, None, None)}, 'Host', 1,
        xla_client.CustomCallTargetTraits.DEFAULT)
  except RuntimeError:
    pass
  return get(xla_client.custom_call_targets('Host')[name]['execute'], None)
)py";
  Session session(p);
  constexpr int kFile = 257;  // Py_file_input
  PyObject* const names = p.dict(p.module("_tessera_pjrt"));
  const auto probe = std::to_string(reinterpret_cast<std::uintptr_t>(&take_api));
  const std::string find =
      kFind + ("_handler = _find('" + std::string(kBuffers)) + "', " + probe + ")\n";
  if (session.own(p.run(find.c_str(), kFile, names, names)) == nullptr) {
    p.clear();
    return nullptr;
  }
  PyObject* const found = p.item(names, "_handler");
  // Without jaxlib's functions it can't be told of errors.
  if (found == nullptr || api_of_jaxlib == nullptr) return nullptr;
  return reinterpret_cast<XLA_FFI_Handler*>(p.pointer_of(found));
}

/// Registers it once a program needs it. Calls are refused if it isn't there.
void register_buffer_callbacks() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (XLA_FFI_Handler* const handler = handler_of_jaxlib()) {
      register_handler(kBuffers, "Host", {nullptr, nullptr, nullptr, handler},
                       {.bytes_for_bits = true, .errors_of = api_of_jaxlib});
    }
  });
}

/// Says of a call that it is of the host; how it is run, its target knows.
class OnHost : public ir::HostCallback {
 public:
  Kind kind() const override { return Kind::io; }
  Batching batching() const override { return Batching::sequential; }
  std::vector<Literal> run(const std::vector<Literal>&, const std::vector<Shape>&) const override {
    throw InternalError("a function of Python is called by its target");
  }
  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction&) const override {
    return std::nullopt;
  }
};

/// Has Python wait for what runs before it ends: afterwards nobody could call its functions.
void wait_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] {
    const Python p;
    if (!p.complete || !python_runs()) return;
    Session session(p);
    constexpr int kFile = 257;  // Py_file_input
    PyObject* const names = p.dict(p.module("_tessera_pjrt"));
    const std::string code =
        "import atexit as _a, ctypes as _c\n_a.register(_c.CFUNCTYPE(None)(" +
        std::to_string(reinterpret_cast<std::uintptr_t>(&RunQueue::wait_for_all)) + "))\n";
    if (session.own(p.run(code.c_str(), kFile, names, names)) == nullptr) p.clear();
  });
}

void collect(const ir::Computation* c, std::set<const ir::Computation*>* out) {
  if (!out->insert(c).second) return;
  for (const auto& i : c->instructions()) {
    for (const ir::Computation* called : i->called()) collect(called, out);
  }
}

}  // namespace

void register_python_callbacks() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name : {kWhole, kParts}) {
      // As numpy has them, elements take a byte at least.
      register_handler(name, "Host", {nullptr, nullptr, nullptr, python_callback},
                       {.bytes_for_bits = true, .takes_parts = name == kParts});
    }
  });
}

bool is_python_callback(const ir::Instruction& call) {
  const auto* attrs = call.attrs.get_if<ir::CustomCallAttrs>();
  return attrs != nullptr &&
         (attrs->target == kWhole || attrs->target == kParts || attrs->target == kBuffers);
}

bool prepare_callbacks(ir::Module* module) {
  bool sees_parts = false;
  register_python_callbacks();
  std::set<const ir::Computation*> per_device;
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(ir::Opcode::manual_computation)) continue;
      for (const ir::Computation* body : i->called()) collect(body, &per_device);
    }
  }
  static const auto on_host = std::make_shared<const OnHost>();
  for (const auto& c : module->computations()) {
    for (const auto& i : c->instructions()) {
      if (!i->is(ir::Opcode::custom_call)) continue;
      // Steps of plans make something: what gives nothing gives a token, which nobody reads.
      const std::string& target = i->get<ir::CustomCallAttrs>().target;
      if (target == kBuffers) register_buffer_callbacks();
      const ir::CustomCallTarget* const known = ir::find_custom_call(target);
      if (i->shape.is_tuple && flatten(i->shape).empty() && known != nullptr &&
          !known->is_marker()) {
        i->shape = Shape(DType::token, {});
        i->sharding.clear();
      }
      const auto& attrs = i->get<ir::CustomCallAttrs>();
      if (is_python_callback(*i)) wait_at_exit();
      if (attrs.target != kWhole && attrs.target != kParts) continue;
      if (per_device.count(c.get()) > 0) continue;
      // What JAX says of where it runs, on the first device, is so that it runs once.
      i->sharding.clear();
      if (attrs.target == kParts) {
        sees_parts = true;
        continue;
      }
      ir::CustomCallAttrs marked = attrs;
      marked.host = on_host;
      i->attrs = std::move(marked);
    }
  }
  return sees_parts;
}

}  // namespace tessera::pjrt::ffi
