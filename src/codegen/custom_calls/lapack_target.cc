// SPDX-License-Identifier: Apache-2.0
// LAPACK calls: binding operands to arguments, layouts, batching, factor rules.
#include "src/codegen/custom_calls/lapack_target.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "src/base/arrays/literal.h"
#include "src/codegen/kernels/moves/transpose.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen::lapack {
namespace {

using Leaf = Target::Leaf;

std::size_t index_of(DType t) {
  switch (t) {
    case DType::f32:
      return 0;
    case DType::f64:
      return 1;
    case DType::c64:
      return 2;
    default:
      return 3;
  }
}

DType complex_of(DType t) { return t == DType::f32 || t == DType::c64 ? DType::c64 : DType::c128; }

/// to[j * rows + i] = from[i * columns + j], in tiles that stay in cache.
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr std::int64_t kTile = 16;
  for (std::int64_t r = 0; r < rows; r += kTile) {
    const std::int64_t r_end = std::min(rows, r + kTile);
    for (std::int64_t c = 0; c < columns; c += kTile) {
      const std::int64_t c_end = std::min(columns, c + kTile);
      for (std::int64_t i = r; i < r_end; ++i) {
        for (std::int64_t j = c; j < c_end; ++j) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

void transpose_bytes(std::size_t element, const std::byte* from, std::int64_t rows,
                     std::int64_t columns, std::byte* to) {
  const auto bytes = std::int64_t(element);
  // Smaller than a vector's squares.
  constexpr std::int64_t kFew = 8, kSmall = 256;
  if ((element == 4 || element == 8) && std::min(rows, columns) < kFew &&
      rows * columns <= kSmall) {
    const auto move = [&](auto number) {
      using T = decltype(number);
      transpose(reinterpret_cast<const T*>(from), rows, columns, reinterpret_cast<T*>(to));
    };
    return element == 4 ? move(std::uint32_t()) : move(std::uint64_t());
  }
  if (codegen::transpose({to, from, columns, rows, rows * bytes, columns * bytes}, element)) return;
  struct Sixteen {
    std::uint64_t low, high;
  };
  transpose(reinterpret_cast<const Sixteen*>(from), rows, columns, reinterpret_cast<Sixteen*>(to));
}

std::int64_t scalar_value(DType t, const void* bytes) {
  return dispatch_dtype(t, [&](auto tag) -> std::int64_t {
    using T = typename decltype(tag)::type;
    T v;
    std::memcpy(&v, bytes, sizeof v);
    if constexpr (std::is_integral_v<T>) {
      return std::int64_t(v);
    } else if constexpr (std::is_same_v<T, Pred>) {
      return bool(v) ? 1 : 0;
    } else {
      return 0;
    }
  });
}

/// Product of a leaf's own dims, behind the batch's.
std::int64_t core_size(const Leaf& leaf, const Batch& frame) {
  std::int64_t n = 1;
  for (char c : leaf.dims) n *= frame.sizes[std::size_t(c)];
  return n;
}

bool has_core(const Leaf& leaf) {
  return leaf.kind == Leaf::Kind::matrix || leaf.kind == Leaf::Kind::plain;
}

/// What a run needs, decoded.
struct Run {
  std::vector<Leaf> operands, results;
  Target::Raw raw;
  Batch frame;
  BatchFunction function = nullptr;
  void (*decode_scalars)(const std::vector<std::int64_t>&, Options*) = nullptr;
  std::string (*misfit)(const Batch&) = nullptr;
  std::string who;
  Location location;

  void operator()(std::span<const BufferView> in, std::span<const MutableBufferView> out,
                  std::int64_t begin, std::int64_t end) const {
    Options options = frame.options;
    if (decode_scalars) {
      std::vector<std::int64_t> scalars;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].kind == Leaf::Kind::scalar) {
          scalars.push_back(scalar_value(in[i].dtype(), in[i].bytes()));
        } else if (operands[i].kind == Leaf::Kind::alpha) {
          options.alpha = in[i].bytes();
        }
      }
      decode_scalars(scalars, &options);
      if (misfit) {
        Batch check = frame;
        check.options = options;
        const std::string wrong = misfit(check);
        if (!wrong.empty()) throw ValueError(who + ": " + wrong, location);
      }
    }
    bool empty = false;
    for (const Leaf& leaf : operands) {
      empty = empty || (leaf.kind == Leaf::Kind::matrix && core_size(leaf, frame) == 0);
    }
    Workspace work;
    for (std::int64_t b = begin; b < end; ++b) {
      if (b == 0) clear(out, Leaf::Kind::workspace, 0, 1);
      if (empty) {
        clear(out, Leaf::Kind::matrix, b, 0);
        clear(out, Leaf::Kind::plain, b, 0);
      } else {
        one(in, out, b, options, &work);
      }
    }
  }

 private:
  void clear(std::span<const MutableBufferView> out, Leaf::Kind kind, std::int64_t b,
             int whole) const {
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (results[i].kind != kind) continue;
      const std::size_t size = byte_size(out[i].dtype());
      const std::int64_t count = whole ? out[i].size() : core_size(results[i], frame);
      if (count == 0) continue;
      std::memset(static_cast<std::byte*>(out[i].bytes()) + std::size_t(b * count) * size, 0,
                  std::size_t(count) * size);
    }
  }

  void one(std::span<const BufferView> in, std::span<const MutableBufferView> out, std::int64_t b,
           const Options& options, Workspace* work) const {
    constexpr int kFirstMatrix = 8;  // pieces of the workspace below are the routines'
    Batch batch = frame;
    batch.options = options;
    batch.work = work;
    auto place = [&](const Leaf& leaf, std::size_t element, const void* base) {
      const std::size_t bytes = std::size_t(core_size(leaf, frame)) * element;
      return const_cast<std::byte*>(static_cast<const std::byte*>(base)) + std::size_t(b) * bytes;
    };
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Leaf& leaf = operands[i];
      if (!has_core(leaf)) continue;
      const std::size_t element = byte_size(leaf.dtype);
      std::byte* at = place(leaf, element, in[i].bytes());
      if (leaf.kind == Leaf::Kind::matrix) {
        const std::int64_t rows = frame.sizes[std::size_t(leaf.dims[0])];
        const std::int64_t columns = frame.sizes[std::size_t(leaf.dims[1])];
        auto* const moved =
            work->get<std::byte>(kFirstMatrix + leaf.slot, rows * columns * std::int64_t(element));
        if (raw.operands[i]) {
          std::memcpy(moved, at, std::size_t(rows * columns) * element);
        } else {
          transpose_bytes(element, at, rows, columns, moved);
        }
        at = moved;
      }
      batch.in[std::size_t(leaf.slot)] = at;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Leaf& leaf = results[i];
      if (!has_core(leaf)) continue;
      const std::size_t element = byte_size(leaf.dtype);
      batch.out[std::size_t(leaf.slot)] =
          leaf.kind == Leaf::Kind::matrix
              ? work->get<std::byte>(kFirstMatrix + kSlots + leaf.slot,
                                     core_size(leaf, frame) * std::int64_t(element))
              : place(leaf, element, out[i].bytes());
    }
    function(batch);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Leaf& leaf = results[i];
      if (leaf.kind != Leaf::Kind::matrix) continue;
      const std::size_t element = byte_size(leaf.dtype);
      const auto* const made = static_cast<std::byte*>(batch.out[std::size_t(leaf.slot)]);
      std::byte* const to = place(leaf, element, out[i].bytes());
      if (raw.results[i]) {
        std::memcpy(to, made, std::size_t(core_size(leaf, frame)) * element);
      } else {
        transpose_bytes(element, made, frame.sizes[std::size_t(leaf.dims[1])],
                        frame.sizes[std::size_t(leaf.dims[0])], to);
      }
    }
  }
};

std::string form(const std::vector<Leaf>& leaves) {
  std::string out;
  for (const Leaf& leaf : leaves) {
    if (!out.empty()) out += ", ";
    switch (leaf.kind) {
      case Leaf::Kind::scalar:
        out += "integer[]";
        break;
      case Leaf::Kind::workspace:
        out += "workspace";
        break;
      default:
        out += std::string(name(leaf.dtype)) + "[";
        if (leaf.kind != Leaf::Kind::alpha) out += "...";
        for (char c : leaf.dims) {
          out += ", " + (c == 'k' ? "min(m, n)" : c == 'h' ? "n-1" : std::string(1, c));
        }
        out += "]";
    }
  }
  return out;
}

}  // namespace

Target::Target(const Routine& routine, DType dtype)
    : routine_(routine), dtype_(dtype), run_(routine.run[index_of(dtype)]) {
  operands_ = leaves(routine.operands);
  results_ = leaves(is_complex(dtype) && !routine.complex_results.empty() ? routine.complex_results
                                                                          : routine.results);
}

std::vector<Leaf> Target::leaves(const std::string& text) const {
  std::vector<Leaf> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    Leaf leaf;
    leaf.text = item;
    switch (item[0]) {
      case 'S':
        leaf.kind = Leaf::Kind::scalar;
        break;
      case 'W':
        leaf.kind = Leaf::Kind::workspace;
        break;
      case 'A':
        leaf.kind = Leaf::Kind::alpha;
        leaf.dtype = dtype_;
        break;
      default: {
        leaf.dtype = item[0] == 'T'   ? dtype_
                     : item[0] == 'R' ? real_type(dtype_)
                     : item[0] == 'C' ? complex_of(dtype_)
                                      : DType::s32;
        leaf.slot = item[1] - '0';
        bool free = false;
        for (std::size_t i = 2; i < item.size(); ++i) {
          if (item[i] == '*') free = true;
          if (item[i] < 'a' || item[i] > 'z') continue;
          leaf.dims += item[i];
          leaf.free.push_back(free);
          free = false;
        }
        leaf.kind = leaf.dims.size() == 2 ? Leaf::Kind::matrix : Leaf::Kind::plain;
      }
    }
    out.push_back(std::move(leaf));
  }
  return out;
}

void Target::misfit(const ir::Instruction& call, const std::string& what) const {
  throw ShapeError("custom call to \"" + call.get<ir::CustomCallAttrs>().target + "\" (" +
                       call.describe() + ": " + ir::call_signature(call) + "): " + what +
                       "; it takes " + form(operands_) + " and gives " + form(results_),
                   call.location());
}

Target::Bound Target::bind(const ir::Instruction& call) const {
  const std::vector<Shape> results = flatten(call.shape);
  if (call.operands().size() != operands_.size() || results.size() != results_.size()) {
    misfit(call, "it has " + std::to_string(call.operands().size()) + " operands and " +
                     std::to_string(results.size()) + " results");
  }
  Bound bound;
  bound.frame.sizes.fill(-1);
  bool batch_known = false;
  auto take = [&](const Shape& shape, const Leaf& leaf, const std::string& who) {
    if (!shape.is_array()) misfit(call, who + " is no array");
    if (leaf.kind == Leaf::Kind::workspace) return;
    if (leaf.kind == Leaf::Kind::scalar || leaf.kind == Leaf::Kind::alpha) {
      if (!shape.dims.empty()) misfit(call, who + " must be a scalar");
      const bool fits =
          leaf.kind == Leaf::Kind::alpha ? shape.dtype == leaf.dtype : is_integer(shape.dtype);
      if (!fits) misfit(call, who + " has the wrong element type");
      return;
    }
    if (shape.dtype != leaf.dtype) {
      misfit(call, who + " is " + std::string(name(shape.dtype)) + " and must be " +
                       std::string(name(leaf.dtype)));
    }
    const std::size_t core = leaf.dims.size();
    if (shape.dims.size() < core) misfit(call, who + " has too few dims");
    const Dims batch(shape.dims.begin(), shape.dims.end() - std::ptrdiff_t(core));
    if (!batch_known) {
      bound.batch = batch;
      batch_known = true;
    } else if (batch != bound.batch) {
      misfit(call, "batch dims are " + to_string(bound.batch) + " and, of " + who + ", " +
                       to_string(batch));
    }
    for (std::size_t d = 0; d < core; ++d) {
      const std::int64_t size = shape.dims[batch.size() + d];
      std::int64_t& known = bound.frame.sizes[std::size_t(leaf.dims[d])];
      if (known < 0) known = size;
      if (known != size) {
        misfit(call, "dim " + std::to_string(batch.size() + d) + " of " + who + " is " +
                         std::to_string(size) + " and must be " + std::to_string(known));
      }
      if (size > std::numeric_limits<Int>::max()) misfit(call, who + " is too large for LAPACK");
    }
  };
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    take(call.operand(i)->shape, operands_[i], "operand " + std::to_string(i));
  }
  auto& sizes = bound.frame.sizes;
  sizes['k'] = std::min(sizes['m'], sizes['n']);
  sizes['h'] = std::max<std::int64_t>(sizes['n'] - 1, 0);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    take(results[i], results_[i], "result " + std::to_string(i));
  }
  return bound;
}

/// Whether the last two dims lie in memory as the others do, and not swapped; NotImplementedError
/// for any other order.
bool Target::is_raw(const ir::Instruction& call, const Leaf& leaf, const Shape& shape,
                    const Dims& minor_to_major, const std::string& which) const {
  const auto rank = std::int64_t(shape.dims.size());
  if (leaf.kind != Leaf::Kind::matrix || std::int64_t(minor_to_major.size()) != rank) return false;
  const std::int64_t row = rank - 2, column = rank - 1;
  if (shape.dims[std::size_t(row)] <= 1 || shape.dims[std::size_t(column)] <= 1) return false;
  const std::int64_t first = minor_to_major[0], second = minor_to_major[1];
  if (first == row && second == column) return false;
  if (first == column && second == row) return true;
  throw NotImplementedError("custom call to \"" + call.get<ir::CustomCallAttrs>().target + "\" (" +
                                call.describe() + ") asks for " + which + " in the layout {" +
                                join(minor_to_major) + "}; valid: matrices in one piece, {" +
                                std::to_string(row) + "," + std::to_string(column) + ",...} or {" +
                                std::to_string(column) + "," + std::to_string(row) + ",...}",
                            call.location());
}

Target::Raw Target::raw(const ir::Instruction& call) const {
  Raw out;
  const std::vector<Dims> layouts = ir::operand_layouts(call);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    out.operands.push_back(i < layouts.size() &&
                           is_raw(call, operands_[i], call.operand(i)->shape, layouts[i],
                                  "operand " + std::to_string(i)));
  }
  // Texts leave out layouts of results that are row-major; where no operand is, it means nothing.
  const std::vector<Shape> results = flatten(call.shape);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    Dims order(results[i].layout.begin(), results[i].layout.end());
    for (std::size_t d = results[i].dims.size(); order.size() < results[i].dims.size();) {
      order.push_back(std::int64_t(--d));
    }
    out.results.push_back(
        out.any() && is_raw(call, results_[i], results[i], order, "result " + std::to_string(i)));
  }
  return out;
}

PreparedCall Target::prepare(const ir::Instruction& call) const {
  Bound bound = bind(call);
  Run run;
  run.operands = operands_;
  run.results = results_;
  run.raw = raw(call);
  run.function = run_;
  run.decode_scalars = routine_.decode_scalars;
  run.misfit = routine_.misfit;
  run.who =
      "custom call to \"" + call.get<ir::CustomCallAttrs>().target + "\" (" + call.describe() + ")";
  run.location = call.location();
  if (routine_.decode) {
    try {
      routine_.decode(CallAttributes::parse(*call.backend_config, call.location()),
                      &bound.frame.options);
    } catch (const ValueError& e) {
      throw ValueError(run.who + ": " + e.message(), call.location());
    }
    if (routine_.misfit) {
      const std::string wrong = routine_.misfit(bound.frame);
      if (!wrong.empty()) misfit(call, wrong);
    }
  }
  run.frame = bound.frame;
  PreparedCall out;
  out.units = element_count(bound.batch);
  double largest = 1, small = 1;
  for (const auto* side : {&operands_, &results_}) {
    for (const Leaf& leaf : *side) {
      if (leaf.kind != Leaf::Kind::matrix) continue;
      const double rows = double(bound.frame.sizes[std::size_t(leaf.dims[0])]);
      const double columns = double(bound.frame.sizes[std::size_t(leaf.dims[1])]);
      largest = std::max(largest, rows * columns);
      small = std::max(small, std::min(rows, columns));
    }
  }
  out.nanoseconds = double(out.units) *
                    (prices::call::kLapack + routine_.cost * (is_complex(dtype_) ? 4 : 1) *
                                                 largest * small * prices::other::kLapackOperation);
  out.may_throw = run.decode_scalars != nullptr;
  out.run = std::move(run);
  return out;
}

namespace {

/// "b0", "b1", ...: appended, as g++ 12 warns of `"b" + std::to_string(n)`.
std::string numbered(char letter, std::size_t n) {
  std::string name(1, letter);
  name += std::to_string(n);
  return name;
}

}  // namespace

/// None for a call of the wrong shapes, which is an error when it is run.
std::optional<ir::FactorRuleSpec> Target::rule(const ir::Instruction& call) const try {
  const Bound bound = bind(call);
  ir::FactorRuleSpec spec;
  auto factor = [&](const std::string& name, std::int64_t size, bool whole) {
    spec.factor_names.push_back(name);
    spec.factor_sizes.push_back(size);
    const int f = int(spec.factor_sizes.size()) - 1;
    if (whole) spec.need_replication.push_back(f);
    return f;
  };
  // JAX says how many leading dims are batches; all of them are.
  std::vector<int> batch;
  for (std::size_t d = 0; d < bound.batch.size(); ++d) {
    batch.push_back(factor(numbered('b', d), bound.batch[d], false));
  }
  std::map<char, int> free;
  const bool may_split = !raw(call).any();
  // Right-hand sides are solved one by one, where the call says on which side the matrix stands.
  char columns = '\0';
  const bool solves = routine_.name.find("trsm_ffi") != std::string::npos;
  const bool multiplies = routine_.name.find("ormqr_ffi") != std::string::npos;
  if (solves || multiplies) {
    Options options;
    routine_.decode(CallAttributes::parse(*call.backend_config, call.location()), &options);
    columns = options.side == 'L' ? 'n' : 'm';
  }
  auto tensor = [&](const Leaf& leaf, const Shape& shape) {
    std::vector<IndexList> dims;
    if (has_core(leaf)) {
      for (int f : batch) dims.push_back({f});
    }
    for (std::size_t d = dims.size(); d < shape.dims.size(); ++d) {
      const std::size_t own = d - (has_core(leaf) ? batch.size() : 0);
      const char symbol = has_core(leaf) ? leaf.dims[own] : '\0';
      const bool split = may_split && symbol != '\0' && (leaf.free[own] || symbol == columns);
      const std::string name = numbered('f', spec.factor_sizes.size());
      if (!split) {
        dims.push_back({factor(name, shape.dims[d], true)});
        continue;
      }
      if (!free.count(symbol)) free[symbol] = factor(name, shape.dims[d], false);
      dims.push_back({free.at(symbol)});
    }
    return dims;
  };
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    spec.operands.push_back(tensor(operands_[i], call.operand(i)->shape));
  }
  const std::vector<Shape> results = flatten(call.shape);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    spec.results.push_back(tensor(results_[i], results[i]));
  }
  return spec;
} catch (const ShapeError&) {
  return std::nullopt;
}

}  // namespace tessera::codegen::lapack
