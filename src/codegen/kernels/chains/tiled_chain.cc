// SPDX-License-Identifier: Apache-2.0
// Several kernels in a row as one, a block of rows at a time.
#include "src/codegen/kernels/chains/tiled_chain.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "src/base/contains.h"
#include "src/codegen/kernels/chains/column_ranges.h"
#include "src/codegen/kernels/chains/masked_columns.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/products/narrow/narrow_gemm.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

struct ChainAttrs {
  struct Link {
    runtime::Kernel kernel;
    std::int64_t rows = 1, units_of_row = 1;
    std::int64_t before = 0, behind = 0;  ///< as TiledChain::Link has them
    std::vector<Place> inputs, outputs;
    int copied_to = -1;
    bool is_read = false;       ///< what it makes, by links behind it or as scratch memory
    bool product = false;       ///< it takes rows together, not one as well as many
    bool holds_second = false;  ///< its second operand, packed, for several blocks of rows
    std::shared_ptr<const RowSums> sums;  ///< null: it makes rows
    KernelBody body;

    /// The rows that it makes for a block that begins, or ends, with this one.
    std::int64_t first(std::int64_t begin) const {
      return std::clamp<std::int64_t>(begin - before, 0, rows);
    }
    std::int64_t last(std::int64_t end) const {
      return std::clamp<std::int64_t>(end + behind, 0, rows);
    }
  };
  std::vector<Link> links;
  std::int64_t rows = 1, block = 1;
  std::int64_t groups = 0, parts = 1;
  std::vector<std::int64_t> row_bytes;  ///< of places in scratch memory
  std::vector<std::size_t> makers;      ///< links that make them
  std::vector<TiledChain::Memory> memories;
  std::int64_t between = 0;      ///< bytes between memories
  std::int64_t short_block = 1;  ///< rows at a time of links between products
  std::optional<MaskedColumns> masked;
  runtime::Kernel mask;                 ///< makes rows of it, unless it is an input as it stands
  bool by_blocks = false;               ///< units are blocks, if there are no groups
  std::size_t operands = 0;             ///< of the link that has most
  std::size_t inputs = 0, outputs = 0;  ///< of the chain
};

/// Of the rows that links between products go through one after the other: what the first cache
/// holds.
constexpr std::int64_t kShortBlockBytes = 24 << 10;

/// Around the memories of links that reach: vectors may be read beyond the rows that are needed.
constexpr std::int64_t kAroundReach = 256;

/// Whether an output is where an input is, which links may have read just before.
bool overwrites(const KernelCall& call, const ChainAttrs& a) {
  for (std::size_t o = 0; o < a.outputs; ++o) {
    if (std::find(call.inputs, call.inputs + a.inputs, call.outputs[o]) != call.inputs + a.inputs) {
      return true;
    }
  }
  return false;
}

/// One call: goes through runs of rows.
class Run {
 public:
  explicit Run(const KernelCall& call)
      : call_(call),
        a_(*static_cast<const ChainAttrs*>(call.attributes)),
        may_stream_(call.may_stream && !overwrites(call, a_)),
        most_(std::min(a_.block, a_.groups > 0 || a_.by_blocks ? a_.rows : call.end - call.begin)),
        memory_(std::size_t(scratch_bytes())),
        scratch_(a_.row_bytes.size()),
        inputs_(a_.operands),
        outputs_(a_.operands),
        held_(a_.links.size()),
        narrow_(a_.links.size()) {}

  void run() {
    if (a_.groups == 0 && a_.by_blocks) {
      return rows(call_.begin * a_.block, std::min(call_.end * a_.block, a_.rows), 0);
    }
    if (a_.groups == 0) return rows(call_.begin, call_.end, 0);
    const std::int64_t of_group = a_.rows / a_.groups;
    // Parts are whole blocks, as far as there are rows.
    const std::int64_t blocks = (of_group + a_.block - 1) / a_.block;
    const std::int64_t of_part = (blocks + a_.parts - 1) / a_.parts * a_.block;
    for (std::int64_t part = call_.begin; part < call_.end; ++part) {
      const std::int64_t first = part / a_.parts * of_group, number = part % a_.parts;
      for (const ChainAttrs::Link& link : a_.links) {
        if (link.sums) std::memset(sums(link, part), 0, std::size_t(link.sums->bytes()));
      }
      rows(first + std::min(number * of_part, of_group),
           first + std::min((number + 1) * of_part, of_group), part);
    }
  }

 private:
  std::int64_t scratch_bytes() const {
    std::int64_t bytes = a_.between;
    for (const TiledChain::Memory& m : a_.memories) bytes += bytes_of(m);
    return bytes;
  }
  std::int64_t bytes_of(const TiledChain::Memory& m) const {
    return rounded_scratch(m.row_bytes * most_ + m.more_bytes) + a_.between;
  }
  std::byte* sums(const ChainAttrs::Link& link, std::int64_t part) const {
    return call_.outputs[link.outputs[0].number] + part * link.sums->bytes();
  }
  std::size_t number_of(const ChainAttrs::Link& link) const {
    return std::size_t(&link - a_.links.data());
  }

  void rows(std::int64_t first, std::int64_t last, std::int64_t part) {
    for (std::int64_t begin = first; begin < last; begin += a_.block) {
      const std::int64_t end = std::min(begin + a_.block, last);
      // Where row 0 would be, so that kernels find their own rows as in an array of all rows.
      std::byte* at = memory_.data() + a_.between;
      for (const TiledChain::Memory& m : a_.memories) {
        for (const std::size_t k : m.places) {
          scratch_[k] = at - a_.links[a_.makers[k]].first(begin) * a_.row_bytes[k];
        }
        at += bytes_of(m);
      }
      if (a_.masked) begin_block(begin, end);
      for (std::size_t l = 0; l < a_.links.size();) {
        if (a_.links[l].product) {
          run(a_.links[l++], begin, end, part);
          continue;
        }
        std::size_t next = l;
        while (next < a_.links.size() && !a_.links[next].product) ++next;
        for (std::int64_t some = begin; some < end; some += a_.short_block) {
          const std::int64_t to = std::min(some + a_.short_block, end);
          for (std::size_t k = l; k < next; ++k) run(a_.links[k], some, to, part);
        }
        l = next;
      }
    }
  }

  void run(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end, std::int64_t part) {
    place(link, part);
    if (is_added_to(link)) look_at_addend(link, begin, end);
    if (hides_any_ && run_shown(link, begin, end)) return;
    link.kernel.function(call_of(link, begin, end));
    if (link.copied_to >= 0) {
      const std::int64_t bytes = a_.row_bytes[std::size_t(link.outputs[0].number)];
      std::memcpy(call_.outputs[link.copied_to] + begin * bytes, outputs_[0] + begin * bytes,
                  std::size_t((end - begin) * bytes));
    }
  }

  KernelCall call_of(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end) {
    return {link.kernel.attributes.get(),
            inputs_.data(),
            outputs_.data(),
            link.first(begin) * link.units_of_row,
            link.last(end) * link.units_of_row,
            may_stream_ && !link.is_read,
            link.holds_second ? &held_[number_of(link)] : nullptr};
  }

  /// Whether it is the product to which the mask is added.
  bool is_added_to(const ChainAttrs::Link& link) const {
    return a_.masked && a_.masked->adds && a_.masked->product == number_of(link);
  }
  static const KernelBody::Product& product_of(const ChainAttrs::Link& link) {
    return *link.body.as<KernelBody::Product>();
  }

  void begin_block(std::int64_t begin, std::int64_t end) {
    begin_ = begin;
    end_ = end;
    hides_any_ = false;
    std::fill(narrow_.begin(), narrow_.end(), false);
    zero_rows_.clear();
    if (!a_.masked->adds) look_at_mask(begin, end);
  }

  /// Makes rows of the mask, where row 0 would be.
  void make_mask(std::byte* first_row, std::int64_t begin, std::int64_t end) {
    const MaskedColumns& mask = *a_.masked;
    place_inputs(mask.inputs);
    a_.mask.function({a_.mask.attributes.get(), inputs_.data(), &first_row, begin * mask.columns,
                      end * mask.columns, false});
  }

  /// Which columns the mask shows of these rows.
  void look_at_mask(std::int64_t begin, std::int64_t end) {
    const MaskedColumns& mask = *a_.masked;
    const ScratchMemory bytes{std::size_t((end - begin) * mask.columns)};
    make_mask(bytes.data() - begin * mask.columns, begin, end);
    shown_ = shown_columns(bytes.data(), end - begin, mask.columns, mask.hides);
    hides_any_ = shown_.last - shown_.first < mask.columns;
  }

  /// The same of what is added to a product, just before that is made.
  void look_at_addend(const ChainAttrs::Link& product, std::int64_t begin, std::int64_t end) {
    const MaskedColumns& mask = *a_.masked;
    const bool stands = mask.period > 0;
    const auto row = mask.columns * std::int64_t(sizeof(float));
    const ScratchMemory numbers{stands ? 0 : std::size_t((end - begin) * row)};
    place_inputs(mask.inputs);
    const std::byte* const standing = inputs_[0];
    const auto numbers_of = [&](std::int64_t r) {
      return reinterpret_cast<const float*>(stands ? standing + r % mask.period * row
                                                   : numbers.data() + (r - begin) * row);
    };
    const auto make = [&](std::int64_t first, std::int64_t last) {
      if (!stands) make_mask(numbers.data() - begin * row, first, last);
    };
    // The first row shows whether it is worth looking.
    constexpr float kInfinite = std::numeric_limits<float>::infinity();
    float largest = kInfinite;
    shown_ = {};
    make(begin, begin + 1);
    show_near(numbers_of(begin), mask.columns, 0, &shown_, &largest);
    hides_any_ = shown_.last - shown_.first < mask.columns;
    if (hides_any_) {
      place_inputs(product.inputs);
      // Rounded up, so that it is the same for most matrices.
      int exponent = std::numeric_limits<int>::max();
      double size = std::fabs(mask.scale) * size_of_products(product, begin, end);
      if (std::isfinite(size)) {
        std::frexp(size, &exponent);
        size = std::ldexp(1.0, exponent);
      }
      const auto show = [&] {
        make(begin + 1, end);
        ColumnRange shown;
        largest = kInfinite;
        for (std::int64_t r = begin; r < end && shown.last - shown.first < mask.columns; ++r) {
          show_near(numbers_of(r), mask.columns, size, &shown, &largest);
        }
        return whole_vectors(shown, mask.columns);
      };
      if (stands) {
        const auto [it, added] =
            shown_before_.try_emplace({begin % mask.period, end - begin, exponent});
        if (added) it->second = show();
        shown_ = it->second;
      } else {
        shown_ = show();
      }
      hides_any_ = shown_.last - shown_.first < mask.columns;
    }
    place_inputs(product.inputs);
  }

  /// What the size of these rows of a product is below.
  double size_of_products(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end) {
    const KernelBody::Product& p = product_of(link);
    const auto bytes = std::int64_t(byte_size(p.type));
    double second = 0;
    for (std::int64_t batch = begin / p.rows; batch <= (end - 1) / p.rows; ++batch) {
      const auto [it, added] = largest_.try_emplace(batch, 0);
      const BatchMatrices& m = p.second;
      for (std::int64_t l = 0; added && l < m.lines; ++l) {
        const std::byte* line = inputs_[1] + (m.first(batch) + l * m.line) * bytes;
        it->second = std::max(it->second, largest_size(p.type, line, m.width));
      }
      second = std::max(second, it->second);
    }
    const double first =
        largest_size(p.type, inputs_[0] + begin * p.depth * bytes, (end - begin) * p.depth);
    return first * second * double(p.depth);
  }

  bool are_zero(const std::vector<MaskedColumns::Array>& arrays) const {
    return std::all_of(arrays.begin(), arrays.end(), [&](const MaskedColumns::Array& array) {
      const auto rows = zero_rows_.find(array);
      return rows != zero_rows_.end() && rows->second == end_ - begin_;
    });
  }

  /// Whether all of the second operands of the rows' matrices is moderate: looked at once. Or what
  /// of them is multiplied by hidden columns, if these are all the rows of the matrices.
  bool is_moderate(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end) {
    const KernelBody::Product& p = product_of(link);
    const bool only_hidden =
        a_.masked->links[number_of(link)].kind == MaskedColumns::Link::Kind::terms &&
        p.lines_are_terms && begin % p.rows == 0 && end % p.rows == 0;
    for (std::int64_t batch = begin / p.rows; batch <= (end - 1) / p.rows; ++batch) {
      if (only_hidden) {
        if (!are_moderate(p, batch, 0, shown_.first) ||
            !are_moderate(p, batch, shown_.last, p.depth)) {
          return false;
        }
        continue;
      }
      const auto [it, added] = moderate_.try_emplace({number_of(link), batch}, false);
      if (added) it->second = are_moderate(p, batch, 0, p.second.lines);
      if (!it->second) return false;
    }
    return true;
  }
  /// Lines [first, last) of a second operand.
  bool are_moderate(const KernelBody::Product& p, std::int64_t batch, std::int64_t first,
                    std::int64_t last) const {
    const auto bytes = std::int64_t(byte_size(p.type));
    const BatchMatrices& m = p.second;
    const std::byte* matrix = inputs_[1] + m.first(batch) * bytes;
    if (m.line == m.width) {
      return moderate(p.type, matrix + first * m.line * bytes, (last - first) * m.width);
    }
    for (std::int64_t l = first; l < last; ++l) {
      if (!moderate(p.type, matrix + l * m.line * bytes, m.width)) return false;
    }
    return true;
  }
  static bool rows_are_moderate(DType t, const std::byte* array, std::int64_t width,
                                std::int64_t begin, std::int64_t end) {
    return moderate(t, array + begin * width * std::int64_t(byte_size(t)), (end - begin) * width);
  }

  /// Runs a link without the hidden columns, if that gives the same.
  bool run_shown(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end) {
    using Kind = MaskedColumns::Link::Kind;
    const std::size_t number = number_of(link);
    const MaskedColumns::Link& how = a_.masked->links[number];
    KernelCall call = call_of(link, begin, end);
    call.may_stream = false;
    switch (how.kind) {
      case Kind::results: {
        const KernelBody::Product& p = product_of(link);
        if (!how.zero.empty()) {
          if (!are_zero(how.zero) || !is_moderate(link, begin, end) ||
              !rows_are_moderate(p.type, inputs_[0], p.depth, begin, end)) {
            return false;
          }
          clear_hidden(p, begin, end);
        }
        p.results(call, shown_.first, shown_.last);
        if (is_added_to(link)) lower_hidden(p, begin, end);
        narrow_[number] = true;
        return true;
      }
      case Kind::loop:
        for (const std::size_t other : how.relies) {
          if (!narrow_[other]) return false;
        }
        run_loop(link, begin, end);
        narrow_[number] = true;
        return true;
      case Kind::terms:
        if (!are_zero(how.zero) || !is_moderate(link, begin, end)) return false;
        product_of(link).terms(call, shown_.first, shown_.last);
        return true;
      case Kind::sums: {
        const std::size_t other = 1 - how.side;
        const DotSizes& sizes = link.sums->sizes;
        if (!are_zero(how.zero) || !rows_are_moderate(link.sums->operands, inputs_[other],
                                                      other == 0 ? sizes.m : sizes.n, begin, end)) {
          return false;
        }
        link.sums->of_columns[how.side](call, shown_.first, shown_.last);
        return true;
      }
      case Kind::whole:
        break;
    }
    return false;
  }

  /// A product's hidden results, which something multiplies by zero.
  void clear_hidden(const KernelBody::Product& p, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = a_.masked->columns, bytes = p.result_bytes;
    for (std::int64_t r = begin; r < end; ++r) {
      std::byte* row = outputs_[0] + r * columns * bytes;
      std::memset(row, 0, std::size_t(shown_.first * bytes));
      std::memset(row + shown_.last * bytes, 0, std::size_t((columns - shown_.last) * bytes));
    }
  }

  /// Those to which something is added that puts them far below others.
  void lower_hidden(const KernelBody::Product& p, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = a_.masked->columns, bytes = p.result_bytes;
    const DType t = bytes == 4 ? DType::f32 : p.type;
    for (std::int64_t r = begin; r < end; ++r) {
      fill_hidden(outputs_[0] + r * columns * bytes, columns, t, a_.masked->scale > 0, shown_);
    }
  }

  /// A loop over the shown columns, and one hidden one, which is as all others.
  void run_loop(const ChainAttrs::Link& link, std::int64_t begin, std::int64_t end) {
    const std::int64_t columns = a_.masked->columns;
    const std::int64_t hidden = shown_.last < columns ? shown_.last : shown_.first - 1;
    const ColumnRange run = hidden == shown_.last ? ColumnRange{shown_.first, hidden + 1}
                                                  : ColumnRange{hidden, shown_.last};
    for (std::int64_t r = begin; r < end; ++r) {
      link.kernel.function({link.kernel.attributes.get(), inputs_.data(), outputs_.data(),
                            r * columns + run.first, r * columns + run.last, false});
    }
    for (const LoopExpr::Register& out : link.body.loop()->registers) {
      if (out.kind != LoopExpr::Kind::output) continue;
      const auto o = std::size_t(out.index);
      const int bytes = out.element_bytes;
      std::int64_t& zero = zero_rows_[{number_of(link), o}];
      for (std::int64_t r = begin; r < end; ++r) {
        zero += fill_hidden(outputs_[o] + r * columns * bytes, columns, bytes, shown_, hidden);
      }
    }
  }

  void place_inputs(const std::vector<Place>& places) {
    const LinkMemory memory{call_, scratch_.data()};
    for (std::size_t k = 0; k < places.size(); ++k) inputs_[k] = memory.at(places[k]);
  }

  void place(const ChainAttrs::Link& link, std::int64_t part) {
    place_inputs(link.inputs);
    const LinkMemory memory{call_, scratch_.data()};
    for (std::size_t k = 0; k < link.outputs.size(); ++k) outputs_[k] = memory.at(link.outputs[k]);
    if (link.sums) outputs_[0] = sums(link, part);
  }

  const KernelCall& call_;
  const ChainAttrs& a_;
  const bool may_stream_;
  const std::int64_t most_;  ///< rows at a time
  const ScratchMemory memory_;
  std::vector<std::byte*> scratch_;
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::vector<PackedSide> held_;  ///< by link
  // Of a block of rows of which a mask hides columns:
  ColumnRange shown_;
  bool hides_any_ = false;
  std::int64_t begin_ = 0, end_ = 0;
  std::vector<bool> narrow_;  ///< links that were run without hidden columns
  std::map<MaskedColumns::Array, std::int64_t> zero_rows_;  ///< whose hidden columns are zero
  std::map<std::pair<std::size_t, std::int64_t>, bool> moderate_;  ///< by link and matrix
  /// Of a mask that stands, by first row, rows and the exponent of what the product is below.
  std::map<std::tuple<std::int64_t, std::int64_t, int>, ColumnRange> shown_before_;
  std::map<std::int64_t, double> largest_;  ///< of second operands of the product with a mask
};

void run_chain(const KernelCall& call) { Run(call).run(); }

}  // namespace

std::vector<TiledChain::Memory> TiledChain::memories() const {
  std::vector<Memory> out;
  for (const Link& link : links) {
    for (const Place& p : link.outputs) {
      if (p.kind != Place::Kind::scratch) continue;
      const auto place = std::size_t(p.number);
      const std::size_t number = memory.empty() ? place : std::size_t(memory[place]);
      if (number >= out.size()) out.resize(number + 1);
      Memory& m = out[number];
      m.row_bytes = std::max(m.row_bytes, scratch[place]);
      m.more_bytes = std::max(m.more_bytes, scratch[place] * (link.before + link.behind));
      if (!contains(m.places, place)) m.places.push_back(place);
    }
  }
  return out;
}

bool TiledChain::reaches() const {
  return std::any_of(links.begin(), links.end(), [](const Link& link) { return link.reaches(); });
}

double TiledChain::repeated() const {
  double rows = 0;
  for (const Link& link : links) rows += double(link.before + link.behind);
  return rows / (double(block) * double(links.size()));
}

void add_to_key(KeyWriter& key, const TiledChain::Link& link) {
  key.add_all(link.sums ? link.sums->key : link.kernel.key, link.units(), link.inputs, link.outputs,
              link.rows, link.before, link.behind, link.copied_to);
}

std::string key_of(const TiledChain& chain) {
  KeyWriter key("chain");
  key.add_all(chain.rows, chain.block, chain.groups, chain.parts, chain.by_blocks, chain.scratch,
              chain.memory, chain.links);
  return key.take();
}

namespace {

/// Short enough for a mask that hides other columns of each row, as causal ones do, to hide some of
/// whole blocks; and none has rows of two matrices, if that can be.
std::int64_t block_of_masked(const TiledChain& chain, const MaskedColumns& masked) {
  constexpr std::int64_t kBlocksOfMatrix = 4, kFewestRows = 32;
  std::int64_t block = chain.block;
  for (std::size_t l = 0; l < chain.links.size(); ++l) {
    if (masked.links[l].kind != MaskedColumns::Link::Kind::results) continue;
    const auto& product = *chain.links[l].kernel.body.as<KernelBody::Product>();
    if (chain.links[l].units() != chain.rows) return chain.block;
    const std::int64_t most = std::max(kFewestRows, product.rows / kBlocksOfMatrix);
    std::int64_t even = std::min(most, product.rows);
    while (even > kFewestRows && product.rows % even != 0) --even;
    block = std::min(block, product.rows % even == 0 ? even : most);
  }
  return block;
}

}  // namespace

KernelDescriptor tiled_chain_kernel(TiledChain chain) {
  static constexpr runtime::KernelLabel kRows = {"chain/rows",
                                                 "steps that go through the same rows, a block at "
                                                 "a time: what is between them stays in cache"};
  static constexpr runtime::KernelLabel kReaching = {
      "chain/stencil", "loops that read neighbouring rows of one another, a block at a time"};
  KernelDescriptor kernel;
  const bool reaches = chain.reaches();
  kernel.label = reaches ? &kReaching : &kRows;
  std::optional<MaskedColumns> masked;
  if (!reaches) masked = masked_columns(chain);
  if (masked && chain.groups == 0 && !chain.by_blocks) {
    chain.block = block_of_masked(chain, *masked);
  }
  kernel.key = key_of(chain);
  chain.by_blocks = chain.by_blocks || masked;
  kernel.units = chain.groups > 0  ? chain.groups * chain.parts
                 : chain.by_blocks ? (chain.rows + chain.block - 1) / chain.block
                                   : chain.rows;
  for (const TiledChain::Link& link : chain.links) {
    kernel.nanoseconds += link.kernel.nanoseconds;
  }
  kernel.nanoseconds *= 1 + chain.repeated();
  kernel.make = [chain = std::move(chain), masked = std::move(masked), reaches] {
    auto made = std::make_shared<ChainAttrs>();
    made->rows = chain.rows;
    made->block = chain.block;
    made->groups = chain.groups;
    made->parts = chain.parts;
    made->by_blocks = chain.by_blocks;
    made->row_bytes = chain.scratch;
    made->makers.resize(chain.scratch.size());
    made->memories = chain.memories();
    made->between = reaches ? kAroundReach : 0;
    const std::int64_t row =
        chain.scratch.empty() ? 1 : *std::max_element(chain.scratch.begin(), chain.scratch.end());
    // Other chains go through memory in blocks that are longer.
    const bool multiplies =
        std::any_of(chain.links.begin(), chain.links.end(),
                    [](const TiledChain::Link& link) { return link.kernel.access.prepares(); });
    made->short_block =
        multiplies ? std::max<std::int64_t>(1, kShortBlockBytes / row) : chain.block;
    std::set<int> read;  // outputs of the chain that later links read
    for (std::size_t l = chain.links.size(); l-- > 0;) {
      const TiledChain::Link& link = chain.links[l];
      bool is_read = false;
      for (const Place& p : link.outputs) {
        is_read = is_read || p.kind != Place::Kind::output || read.count(p.number) != 0;
        if (p.kind == Place::Kind::output) {
          made->outputs = std::max(made->outputs, std::size_t(p.number) + 1);
        } else {
          made->makers[std::size_t(p.number)] = l;
        }
      }
      made->outputs = std::max(made->outputs, std::size_t(link.copied_to + 1));
      for (const Place& p : link.inputs) {
        if (p.kind == Place::Kind::output) read.insert(p.number);
        if (p.kind == Place::Kind::input) {
          made->inputs = std::max(made->inputs, std::size_t(p.number) + 1);
        }
      }
      const auto* product = link.kernel.body.as<KernelBody::Product>();
      const bool holds_second = !link.sums && product != nullptr &&
                                product->rows >= 2 * chain.block * link.units() / chain.rows &&
                                link.inputs[1].kind == Place::Kind::input;
      const std::int64_t rows = link.rows > 0 ? link.rows : chain.rows;
      made->links.insert(
          made->links.begin(),
          {link.sums ? link.sums->make() : link.kernel.make(), rows, link.units() / rows,
           link.before, link.behind, link.inputs, link.outputs, link.copied_to, is_read,
           link.sums != nullptr || link.kernel.access.prepares(), holds_second, link.sums,
           link.kernel.body});
      made->operands = std::max({made->operands, link.inputs.size(), link.outputs.size()});
    }
    if (masked) {
      made->masked = masked;
      if (masked->period == 0) made->mask = masked->mask.make();
      made->operands = std::max(made->operands, masked->inputs.size());
    }
    return runtime::Kernel{run_chain, std::move(made)};
  };
  return kernel;
}

}  // namespace tessera::codegen
