// SPDX-License-Identifier: Apache-2.0
// Compiled alone: versions of it for several instruction sets.
// Kernel of select-and-scatter with a comparison as selector and addition as scatter.
#include "src/codegen/kernels/reductions/windows/select_and_scatter.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/base/contains.h"
#include "src/codegen/kernels/convolutions/tap_runs.h"
#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/reductions/windows/window_vectors.h"
#include "src/codegen/kernels/type_dispatch.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::codegen {
namespace {

using ir::Direction;
using runtime::KernelCall;

/// So many neighbours are done at once, whose windows lie beside each other.
constexpr std::int64_t kLanes = 64;
/// Of fewer lanes, windows along the last dim are done at once.
constexpr std::int64_t kFewLanes = 16;

/// Dims in which windows are single elements are independent of each other: they make the units,
/// and the last ones the lanes.
struct Attrs {
  std::vector<ir::WindowDim> window;      ///< of the other dims
  Dims in, out, in_strides, out_strides;  ///< of the other dims; `out`: of the source
  Dims unit_dims, unit_in_strides, unit_out_strides;
  std::int64_t lanes = 1;  ///< a unit has kLanes of them, the last one maybe fewer
  /// For each dim and each position of the source, the window's elements that are inside.
  std::vector<std::vector<TapRun>> taps;
  /// Positions of the last dim whose windows are inside in that dim.
  std::int64_t inside_begin = 0, inside_end = 0;

  bool by_lines() const { return lanes < kFewLanes && !in.empty(); }
};

/// Small floats are compared, and added, as f32.
template <class T>
TESSERA_INLINE auto number(T x) {
  if constexpr (is_small_float_v<T>)
    return float(x);
  else
    return x;
}

template <Direction direction, class T>
TESSERA_INLINE bool keeps(T chosen_element, T next_element) {
  const auto chosen = number(chosen_element), next = number(next_element);
  if constexpr (direction == Direction::ge) return chosen >= next;
  if constexpr (direction == Direction::gt) return chosen > next;
  if constexpr (direction == Direction::le) return chosen <= next;
  return chosen < next;
}

template <class T>
TESSERA_INLINE T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));  // wraps
  } else {
    return T(number(a) + number(b));
  }
}

bool advance(Dims* index, const Dims& dims) {
  for (std::size_t d = index->size(); d-- > 0;) {
    if (++(*index)[d] < dims[d]) return true;
    (*index)[d] = 0;
  }
  return false;
}

/// The windows of some lanes at one position.
template <class T>
struct Windows {
  const T* x;
  const T* source;
  T* out;
  const std::int64_t* elements;  ///< of a window, from its lane's first
  std::int64_t count;            ///< of those, at least one
  std::int64_t lanes;
};

template <class Element, Direction how>
struct Choice {
  using T = Element;
  static constexpr Direction direction = how;
};

/// Chooses in each lane, then adds. `lanes`: 0 if they aren't kLanes.
template <class How, std::int64_t lanes>
TESSERA_INLINE void choose(const Windows<typename How::T>& w) {
  using T = typename How::T;
  using Number = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  const std::int64_t n = lanes == 0 ? w.lanes : lanes;
  T best[kLanes];
  Number chosen[kLanes];
  const T* first = w.x + w.elements[0];
  for (std::int64_t l = 0; l < n; ++l) {
    best[l] = first[l];
    chosen[l] = 0;
  }
  for (std::int64_t k = 1; k < w.count; ++k) {
    const T* x = w.x + w.elements[k];
    for (std::int64_t l = 0; l < n; ++l) {
      const bool stays = keeps<How::direction>(best[l], x[l]);
      best[l] = stays ? best[l] : x[l];
      chosen[l] = stays ? chosen[l] : Number(k);
    }
  }
  T add[kLanes];
  for (std::int64_t l = 0; l < n; ++l) add[l] = w.source[l];
  for (std::int64_t k = 0; k < w.count; ++k) {
    T* out = w.out + w.elements[k];
    for (std::int64_t l = 0; l < n; ++l)
      out[l] = chosen[l] == Number(k) ? sum(out[l], add[l]) : out[l];
  }
}
/// One lane: what was chosen is known.
template <class How>
TESSERA_INLINE void choose_one(const Windows<typename How::T>& w) {
  std::int64_t chosen = w.elements[0];
  for (std::int64_t k = 1; k < w.count; ++k) {
    const bool stays = keeps<How::direction>(w.x[chosen], w.x[w.elements[k]]);
    chosen = stays ? chosen : w.elements[k];
  }
  w.out[chosen] = sum(w.out[chosen], w.source[0]);
}

/// Windows beside each other in the last dim, all of the same elements.
template <class T>
struct WindowLine {
  const T* x;
  const T* source;
  T* out;
  const std::int64_t* elements;  ///< of a window, from its first
  std::int64_t count;            ///< of those, at least one
  std::int64_t windows, step;    ///< these, and how far from the next one
  std::int64_t source_step;
};

/// Adds up what some neighbouring windows chose, from window `first` on, one after the other as
/// they may have elements in common.
template <class T, class Number>
TESSERA_INLINE void add_chosen(const WindowLine<T>& w, std::int64_t first, const Number* chosen,
                               std::int64_t count) {
  for (std::int64_t l = 0; l < count; ++l) {
    T& to = w.out[w.elements[chosen[l]] + (first + l) * w.step];
    to = sum(to, w.source[(first + l) * w.source_step]);
  }
}

template <Direction direction, class V>
TESSERA_INLINE auto keeps_lanes(V chosen, V next) {
  if constexpr (direction == Direction::ge) return chosen >= next;
  if constexpr (direction == Direction::gt) return chosen > next;
  if constexpr (direction == Direction::le) return chosen <= next;
  if constexpr (direction == Direction::lt) return chosen < next;
}

/// Windows from `first` on by vectors of so many bytes, and what is left by narrower ones. Returns
/// the first window that is left still.
template <class How, int bytes, int step>
TESSERA_INLINE std::int64_t choose_vectors(const WindowLine<typename How::T>& w,
                                           std::int64_t first) {
  using T = typename How::T;
  using Number = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  using Line = window_vectors::Apart<T, bytes, step>;
  using Numbers = Vectors<Number, bytes>;
  constexpr std::int64_t kLanesOfVector = Line::kLanes;
  for (; first + kLanesOfVector <= w.windows; first += kLanesOfVector) {
    const T* const x = w.x + first * step;
    auto best = Line::load(x + w.elements[0]);
    typename Numbers::V chosen = {};
    for (std::int64_t k = 1; k < w.count; ++k) {
      const auto next = Line::load(x + w.elements[k]);
      const auto stays = keeps_lanes<How::direction>(best, next);
      best = stays ? best : next;
      chosen = stays ? chosen : Numbers::splat(Number(k));
    }
    Number of_each[kLanesOfVector];
    Numbers::store(of_each, chosen);
    add_chosen(w, first, of_each, kLanesOfVector);
  }
  if constexpr (bytes > 16) return choose_vectors<How, bytes / 2, step>(w, first);
  return first;
}

template <class How, int bytes>
TESSERA_INLINE void choose_line(const WindowLine<typename How::T>& w) {
  using T = typename How::T;
  std::int64_t first = 0;
  if constexpr (!is_small_float_v<T>) {
    if (w.step == 1) first = choose_vectors<How, bytes, 1>(w, first);
    if (w.step == 2) first = choose_vectors<How, bytes, 2>(w, first);
    if (w.step == 3) first = choose_vectors<How, bytes, 3>(w, first);
  }
  for (; first < w.windows; ++first) {
    const T* const x = w.x + first * w.step;
    std::int64_t chosen = 0;
    for (std::int64_t k = 1; k < w.count; ++k) {
      const bool stays = keeps<How::direction>(x[w.elements[chosen]], x[w.elements[k]]);
      chosen = stays ? chosen : k;
    }
    add_chosen(w, first, &chosen, 1);
  }
}

/// Puts the elements that a dim's taps see in place of those of a window without the dim.
/// Backwards, as what is read is overwritten last.
TESSERA_INLINE void add_dim(const TapRun& taps, std::int64_t stride,
                            std::vector<std::int64_t>* elements) {
  const std::size_t before = elements->size(), count = std::size_t(taps.count);
  if (before == 1 && count > 0) elements->reserve(count);
  elements->resize(before * count);
  for (std::size_t k = before; k-- > 0;) {
    const std::int64_t of = (*elements)[k];
    for (std::size_t t = count; t-- > 0;) {
      (*elements)[k * count + t] = of + (taps.at + std::int64_t(t)) * stride;
    }
  }
}

/// All windows of one lane, in order. `source` and `elements` of `w` are found here.
template <class How, int bytes>
TESSERA_INLINE void choose_by_lines(const Attrs& a, Windows<typename How::T> w,
                                    const typename How::T* source) {
  const std::size_t last = a.in.size() - 1;
  const std::vector<TapRun>& taps = a.taps[last];
  const std::int64_t in_step = a.in_strides[last], out_step = a.out_strides[last];
  const auto inside = std::size_t(a.inside_begin);
  std::vector<std::int64_t> lines, elements;
  Dims outer(a.out.begin(), a.out.end() - 1), position(last);
  do {
    std::int64_t s = 0;
    lines.assign(1, 0);
    for (std::size_t d = 0; d < last; ++d) {
      s += position[d] * a.out_strides[d];
      add_dim(a.taps[d][std::size_t(position[d])], a.in_strides[d], &lines);
    }
    if (lines.empty()) continue;  // all in the padding
    const auto at_ends = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) {
        elements = lines;
        add_dim(taps[std::size_t(p)], in_step, &elements);
        if (elements.empty()) continue;
        w.source = source + s + p * out_step;
        w.elements = elements.data();
        w.count = std::int64_t(elements.size());
        choose_one<How>(w);
      }
    };
    at_ends(0, a.inside_begin);
    if (a.inside_end > a.inside_begin) {
      elements = lines;
      add_dim(taps[inside], in_step, &elements);
      choose_line<How, bytes>({w.x, source + s + a.inside_begin * out_step, w.out, elements.data(),
                               std::int64_t(elements.size()), a.inside_end - a.inside_begin,
                               a.window[last].stride * in_step, out_step});
    }
    at_ends(a.inside_end, a.out[last]);
  } while (advance(&position, outer));
}

template <class How>
struct Job {
  const Attrs* attrs;
  const KernelCall* call;
};

template <class How, int bytes>
TESSERA_INLINE void run_units(const Job<How>& job) {
  using T = typename How::T;
  const Attrs& a = *job.attrs;
  const KernelCall& call = *job.call;
  const T init = *reinterpret_cast<const T*>(call.inputs[2]);
  const std::size_t rank = a.in.size();
  const std::int64_t chunks = ceil_div(a.lanes, kLanes);
  std::vector<std::int64_t> elements;
  for (std::int64_t unit = call.begin; unit < call.end; ++unit) {
    const std::int64_t lane = unit % chunks * kLanes;
    std::int64_t rest = unit / chunks, in_base = lane, out_base = lane;
    for (std::size_t d = a.unit_dims.size(); d-- > 0;) {
      in_base += rest % a.unit_dims[d] * a.unit_in_strides[d];
      out_base += rest % a.unit_dims[d] * a.unit_out_strides[d];
      rest /= a.unit_dims[d];
    }
    Windows<T> w{reinterpret_cast<const T*>(call.inputs[0]) + in_base,
                 nullptr,
                 reinterpret_cast<T*>(call.outputs[0]) + in_base,
                 nullptr,
                 0,
                 std::min(kLanes, a.lanes - lane)};
    // Lines of the last dim are in one piece if they have all lanes.
    const bool whole = rank > 0 && chunks == 1;
    Dims at(rank), filled = a.in;
    if (whole) filled.back() = 1;
    do {
      std::int64_t i = 0;
      for (std::size_t d = 0; d < rank; ++d) i += at[d] * a.in_strides[d];
      std::fill_n(w.out + i, whole ? w.lanes * a.in.back() : w.lanes, init);
    } while (advance(&at, filled));
    if (contains(a.out, 0)) continue;
    if (a.by_lines()) {
      for (std::int64_t l = 0; l < a.lanes; ++l, ++w.x, ++w.out) {
        choose_by_lines<How, bytes>(a, w,
                                    reinterpret_cast<const T*>(call.inputs[1]) + out_base + l);
      }
      continue;
    }
    Dims position(rank);
    do {
      std::int64_t s = out_base;
      elements.assign(1, 0);
      for (std::size_t d = 0; d < rank; ++d) {
        s += position[d] * a.out_strides[d];
        add_dim(a.taps[d][std::size_t(position[d])], a.in_strides[d], &elements);
        if (elements.empty()) break;
      }
      if (elements.empty()) continue;  // all in the padding
      w.source = reinterpret_cast<const T*>(call.inputs[1]) + s;
      w.elements = elements.data();
      w.count = std::int64_t(elements.size());
      if (w.lanes == kLanes) {
        choose<How, kLanes>(w);
      } else {
        choose<How, 0>(w);
      }
    } while (advance(&position, a.out));
  }
}
TESSERA_VERSIONS(version, run_units, Job<T>)

template <class T, Direction direction>
void run(const KernelCall& call) {
  using How = Choice<T, direction>;
  version<How>()({static_cast<const Attrs*>(call.attributes), &call});
}

template <class T>
runtime::KernelFunction select_and_scatter_function(Direction direction) {
  switch (direction) {
    case Direction::ge:
      return run<T, Direction::ge>;
    case Direction::gt:
      return run<T, Direction::gt>;
    case Direction::le:
      return run<T, Direction::le>;
    case Direction::lt:
      return run<T, Direction::lt>;
    default:
      return nullptr;
  }
}

/// The comparison of parameters 0 and 1 that a computation is.
std::optional<Direction> as_comparison(const ir::Computation& c) {
  const ir::Instruction& root = *c.root();
  if (!root.is(ir::Opcode::compare)) return std::nullopt;
  const auto& attrs = root.get<ir::CompareAttrs>();
  if (attrs.type == ir::ComparisonType::total_order) return std::nullopt;
  const ir::Instruction *l = root.operand(0), *r = root.operand(1);
  if (l == c.parameter(0) && r == c.parameter(1)) return attrs.direction;
  if (l != c.parameter(1) || r != c.parameter(0)) return std::nullopt;
  switch (attrs.direction) {
    case Direction::ge:
      return Direction::le;
    case Direction::gt:
      return Direction::lt;
    case Direction::le:
      return Direction::ge;
    case Direction::lt:
      return Direction::gt;
    default:
      return std::nullopt;
  }
}

runtime::KernelFunction function_of(DType t, Direction direction) {
  return for_type(kFloats + kHalves + ElementTypes<std::int32_t, std::int64_t>(), t, [&](auto tag) {
    return select_and_scatter_function<typename decltype(tag)::type>(direction);
  });
}

bool has_plain_windows(const ir::Instruction& in) {
  const auto& window = in.get<ir::WindowAttrs>().dims;
  return std::all_of(window.begin(), window.end(), [](const ir::WindowDim& w) {
    return w.size != 0 && w.lhs_dilation == 1 && w.rhs_dilation == 1 && !w.reversal;
  });
}

struct SelectAndScatterOperation {
  bool compares = false;       ///< the selection, numbers that there is a loop for
  bool adds = false;           ///< the updates
  bool plain_windows = false;  ///< neither dilated nor reversed nor empty
};
enum class SelectAndScatterKernel : std::uint8_t { none, windows };
constexpr KernelLine<SelectAndScatterOperation, SelectAndScatterKernel> kSelectAndScatters[] = {
    {kOnEvaluator,
     [](const SelectAndScatterOperation& s) { return !s.compares || !s.adds || !s.plain_windows; },
     SelectAndScatterKernel::none},
    {{"select-and-scatter/windows", "a comparison of numbers whose updates are added"},
     always<SelectAndScatterOperation>,
     SelectAndScatterKernel::windows},
};

}  // namespace

KernelFamily select_and_scatter_family() {
  return family_of("select-and-scatter", kSelectAndScatters);
}

KernelDescriptor select_and_scatter_kernel(const ir::Instruction& in) {
  KernelDescriptor kernel;
  const auto direction = as_comparison(*in.called().at(0));
  const auto function = direction ? function_of(in.shape.dtype, *direction) : nullptr;
  SelectAndScatterOperation operation;
  operation.compares = function != nullptr;
  operation.adds = ir::as_binary_reducer(*in.called().at(1)) == ir::Opcode::add;
  operation.plain_windows = has_plain_windows(in);
  const auto& line = choose(kSelectAndScatters, operation);
  if (line.how == SelectAndScatterKernel::none) return kernel;
  kernel.label = &line.label;
  const Shape& source = in.operand(1)->shape;
  const Dims in_strides = row_major_strides(in.shape.dims);
  const Dims out_strides = row_major_strides(source.dims);
  const auto& window = in.get<ir::WindowAttrs>().dims;
  Attrs a;
  double taps = 1;
  std::size_t rank = window.size();
  while (rank > 0 && window[rank - 1] == ir::WindowDim()) a.lanes *= in.shape.dims[--rank];
  kernel.units = ceil_div(a.lanes, kLanes);
  for (std::size_t d = 0; d < rank; ++d) {
    const ir::WindowDim& w = window[d];
    if (w == ir::WindowDim()) {
      a.unit_dims.push_back(in.shape.dims[d]);
      a.unit_in_strides.push_back(in_strides[d]);
      a.unit_out_strides.push_back(out_strides[d]);
      kernel.units *= in.shape.dims[d];
    } else {
      a.window.push_back(w);
      a.in.push_back(in.shape.dims[d]);
      a.out.push_back(source.dims[d]);
      a.in_strides.push_back(in_strides[d]);
      a.out_strides.push_back(out_strides[d]);
      taps *= double(w.size);
      auto& inside = a.taps.emplace_back();
      for (std::int64_t p = 0; p < source.dims[d]; ++p) {
        inside.push_back(taps_of(w, in.shape.dims[d], p));
      }
    }
  }
  if (a.by_lines()) {
    const auto inside = [&](const TapRun& t) { return t.count == a.window.back().size; };
    const auto& last = a.taps.back();
    const auto first = std::find_if(last.begin(), last.end(), inside);
    a.inside_begin = first - last.begin();
    a.inside_end = std::find_if_not(first, last.end(), inside) - last.begin();
  }
  if (in.shape.element_count() == 0) kernel.units = 0;
  kernel.nanoseconds =
      prices::call::kWindows +
      (prices::other::kSelectedTap * taps + (a.by_lines() ? prices::other::kSelected : 0)) *
          double(source.element_count()) +
      0.2 * double(in.shape.element_count());
  kernel.key = kernel_key("select-and-scatter", in.shape.dtype, *direction, a.window, a.in, a.out,
                          a.in_strides, a.out_strides, a.unit_dims, a.unit_in_strides,
                          a.unit_out_strides, a.lanes);
  kernel.make = kernel_maker(function, std::move(a));
  return kernel;
}

}  // namespace tessera::codegen
