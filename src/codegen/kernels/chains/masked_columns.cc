// SPDX-License-Identifier: Apache-2.0
// Goes through the links of a chain with what is known of each array where columns are hidden.
#include "src/codegen/kernels/chains/masked_columns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "src/codegen/kernels/chains/mask_programs.h"
#include "src/codegen/kernels/chains/masked_value.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

using LinkOutput = MaskedColumns::Array;
using How = MaskedColumns::Link::Kind;
using MaskRegister = LoopExpr::Register;

/// A predicate: what makes the rows of it, as text, if that is inputs of the chain alone.
struct MaskText {
  std::string key;
  bool hides = false;
};

class MaskAnalysis {
 public:
  MaskAnalysis(const TiledChain& chain, std::set<std::size_t> whole)
      : chain_(chain), whole_(std::move(whole)) {}

  /// False if a product has to be whole after all: it is added to `whole`.
  bool run() {
    out_.links.resize(chain_.links.size());
    for (std::size_t l = 0; l < chain_.links.size(); ++l) {
      const std::size_t before = whole_.size();
      visit(l);
      if (whole_.size() != before) return false;
    }
    for (const auto& [product, array] : conditions_) {
      // It is computed before that is known.
      if (array.link >= product) {
        whole_.insert(product);
        return false;
      }
      out_.links[product].zero.push_back(array);
    }
    return true;
  }

  const std::set<std::size_t>& whole() const { return whole_; }
  std::optional<MaskedColumns> take() {
    const bool any = std::any_of(out_.links.begin(), out_.links.end(), [](const auto& link) {
      return link.kind != How::whole && link.kind != How::loop;
    });
    if (!any || !out_.mask) return std::nullopt;
    return std::move(out_);
  }

 private:
  static bool has_place(const Place& p) { return p.kind != Place::Kind::input; }
  MaskedValue value_at(const Place& p) const {
    const auto it = values_.find(p);
    if (it != values_.end()) return it->second;
    MaskedValue out;
    out.varies = true;
    return out;
  }
  void set(const TiledChain::Link& link, std::size_t output, MaskedValue v) {
    const Place& p = link.outputs[output];
    values_[p] = std::move(v);
  }

  void visit(std::size_t l) {
    const TiledChain::Link& link = chain_.links[l];
    MaskedColumns::Link& to = out_.links[l];
    if (link.sums) return visit_sums(link, &to);
    if (const auto* product = link.kernel.body.as<KernelBody::Product>()) {
      const MaskedValue lhs = value_at(link.inputs[0]), rhs = value_at(link.inputs[1]);
      need(rhs);
      need(lhs);
      if (product->depth == columns() && !lhs.zero_if.empty()) {
        to.kind = How::terms;
        to.zero = {*lhs.zero_if.begin()};
      }
      MaskedValue made;
      made.varies = true;
      // What the chain returns is wanted whole.
      if (whole_.count(l) == 0 && link.outputs[0].kind == Place::Kind::scratch &&
          (columns() == 0 || product->columns == columns()) && to.kind == How::whole) {
        to.kind = How::results;
        made.varies = false;
        made.not_made.insert(l);
        made.relies.insert(l);
        made.scale = 1;
      }
      set(link, 0, std::move(made));
      return;
    }
    bool largest = false;  // of rows some of which is far below
    const auto* reduction = link.kernel.body.as<KernelBody::Reduction>();
    if (const LoopExpr* loop = link.kernel.body.loop()) {
      if (visit_loop(l, *loop)) return;
    } else if (reduction != nullptr && reduction->program) {
      const MaskedValue v = of_output(*reduction->program, link, 0);
      largest = reduction->takes_largest && v.far == MaskedValue::Far::row;
      if (!largest) need(v);
    } else if (reduction != nullptr && reduction->takes_largest &&
               value_at(link.inputs[0]).far == MaskedValue::Far::row) {
      largest = true;
    } else {
      for (const Place& p : link.inputs) need(value_at(p));
    }
    for (std::size_t o = 0; o < link.outputs.size(); ++o) {
      MaskedValue made;
      made.varies = true;
      made.largest = largest;
      set(link, o, std::move(made));
    }
  }

  std::int64_t columns() const { return out_.columns; }
  const KernelBody::Product& product_at(std::size_t l) const {
    return *chain_.links[l].kernel.body.as<KernelBody::Product>();
  }

  /// What depends on a product that isn't computed needs it to be.
  void need(const MaskedValue& v) {
    whole_.insert(v.not_made.begin(), v.not_made.end());
    if (v.stands_in()) whole_.insert(out_.product);
    conditions_.insert(v.unless.begin(), v.unless.end());
  }

  void visit_sums(const TiledChain::Link& link, MaskedColumns::Link* to) {
    const DotSizes& sizes = link.sums->sizes;
    for (std::size_t k = 0; k < 2; ++k) {
      const MaskedValue v = value_at(link.inputs[k]);
      const std::int64_t width = k == 0 ? sizes.m : sizes.n;
      need(v);
      if (to->kind == How::whole && sizes.by_rows[0] && sizes.by_rows[1] && width == columns() &&
          !v.zero_if.empty()) {
        to->kind = How::sums;
        to->side = k;
        to->zero = {*v.zero_if.begin()};
      }
    }
  }

  /// Whether it is one over the columns.
  bool visit_loop(std::size_t l, const LoopExpr& loop) {
    const TiledChain::Link& link = chain_.links[l];
    const std::int64_t elements = link.units() / chain_.rows;
    std::size_t outputs = 0;
    bool plain = link.units() % chain_.rows == 0 && loop.only_source < 0;
    for (const MaskRegister& r : loop.registers) {
      if (r.kind != LoopExpr::Kind::output) continue;
      ++outputs;
      plain = plain && r.starts.empty() && r.offset == 0;
    }
    if (!plain || outputs != link.outputs.size()) {
      for (const Place& p : link.inputs) need(value_at(p));
      return false;
    }
    if (columns() != 0 && elements != columns()) {
      for (const Place& p : link.inputs) need(value_at(p));
      if (outputs != 1 || !of_output(loop, link, 0).largest) return false;
      MaskedValue made;
      made.varies = made.largest = true;
      set(link, 0, std::move(made));
      return true;
    }
    std::vector<MaskedValue> of_outputs;
    for (std::size_t o = 0; o < outputs; ++o) of_outputs.push_back(of_output(loop, link, int(o)));
    if (columns() == 0) {
      for (const MaskedValue& v : of_outputs) need(v);
      if (outputs != 1) return false;
      MaskedValue made;
      made.varies = true;
      made.text = of_outputs[0].text;
      set(link, 0, std::move(made));
      makers_[link.outputs[0]] = l;
      return true;
    }
    bool uniform = true;
    std::set<std::size_t> relies;
    for (std::size_t o = 0; o < outputs; ++o) {
      const MaskedValue& v = of_outputs[o];
      if (!v.stands_in() || link.outputs[o].kind == Place::Kind::output) need(v);
      uniform = uniform && !v.varies;
      relies.insert(v.relies.begin(), v.relies.end());
    }
    for (std::size_t o = 0; o < outputs; ++o) {
      MaskedValue v;
      v.varies = !uniform;
      if (uniform) {
        v.zero_if.insert({l, o});
        v.relies.insert(l);
        v.far = of_outputs[o].far;
      } else {
        need(of_outputs[o]);
      }
      if (outputs == 1) v.text = of_outputs[0].text;
      set(link, o, std::move(v));
      makers_[link.outputs[o]] = l;
    }
    if (uniform) {
      out_.links[l].kind = How::loop;
      out_.links[l].relies.assign(relies.begin(), relies.end());
    }
    return true;
  }

  /// Of an output of a loop, or of what is reduced.
  MaskedValue of_output(const LoopExpr& loop, const TiledChain::Link& link, int output) {
    const std::vector<MaskedValue> values = of_registers(loop, link);
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (loop.registers[r].kind == LoopExpr::Kind::output && loop.registers[r].index == output) {
        return values[r];
      }
    }
    MaskedValue unknown;
    for (const Place& p : link.inputs) join(&unknown, value_at(p));
    unknown.varies = true;
    return unknown;
  }

  std::vector<MaskedValue> of_registers(const LoopExpr& loop, const TiledChain::Link& link) {
    std::vector<MaskedValue> out(loop.registers.size());
    std::vector<std::string> keys(loop.registers.size());
    std::int64_t row = 0;
    if (link.kernel.body.loop() != nullptr) {
      row = link.units() / chain_.rows;
    } else {
      row = columns() != 0 ? columns() : columns_of_products(link);
    }
    for (std::size_t r = 0; r < out.size(); ++r) {
      out[r] = of_input(loop.registers[r], link, row);
      keys[r] = key_of(loop, loop.registers[r], link);
      if (!keys[r].empty() && keys[r] == mask_.key) out[r].known = mask_.hides;
    }
    for (const LoopExpr::Op& op : loop.ops) {
      const auto o = std::size_t(op.out);
      keys[o] = text_of(op, keys);
      out[o] = of_op(loop, op, out, keys, link, row);
      if (!keys[o].empty() && keys[o] == mask_.key) out[o].known = mask_.hides;
      out[o].text = keys[o];
    }
    return out;
  }

  /// Of those that aren't made yet.
  std::int64_t columns_of_products(const TiledChain::Link& link) const {
    for (const Place& p : link.inputs) {
      const MaskedValue v = value_at(p);
      if (!v.not_made.empty()) return product_at(*v.not_made.begin()).columns;
    }
    return 0;
  }

  MaskedValue of_input(const MaskRegister& r, const TiledChain::Link& link, std::int64_t row) {
    MaskedValue out;
    const bool plain = r.kind == LoopExpr::Kind::contiguous && r.starts.empty() && r.offset == 0;
    if (!plain) {
      // Where that reads is not looked at.
      for (const Place& p : link.inputs) {
        const bool read = r.kind == LoopExpr::Kind::composed || r.kind == LoopExpr::Kind::source ||
                          r.kind == LoopExpr::Kind::array ||
                          (reads_one(r) && &p == &link.inputs[std::size_t(r.index)]);
        if (read && value_at(p).stands_in()) whole_.insert(out_.product);
      }
    }
    switch (r.kind) {
      case LoopExpr::Kind::scalar:
      case LoopExpr::Kind::constant:
      case LoopExpr::Kind::temporary:
      case LoopExpr::Kind::output:
        return out;
      case LoopExpr::Kind::iota:
        out.varies = row == 0 || r.dims[2] % row != 0;
        return out;
      case LoopExpr::Kind::contiguous: {
        const MaskedValue v = value_at(link.inputs[std::size_t(r.index)]);
        if (plain) return v;
        join(&out, v);
        out.varies = true;
        return out;
      }
      case LoopExpr::Kind::broadcast: {
        join(&out, value_at(link.inputs[std::size_t(r.index)]));
        out.varies = !same_in_row(r, row);
        out.largest = !out.varies && value_at(link.inputs[std::size_t(r.index)]).largest;
        out.relies.clear();
        return out;
      }
      case LoopExpr::Kind::composed:
      case LoopExpr::Kind::source:
      case LoopExpr::Kind::array:
        for (const Place& p : link.inputs) join(&out, value_at(p));
        out.varies = true;
        return out;
    }
    return out;
  }

  MaskedValue of_op(const LoopExpr& loop, const LoopExpr::Op& op,
                    const std::vector<MaskedValue>& values, const std::vector<std::string>& keys,
                    const TiledChain::Link& link, std::int64_t row) {
    const auto operand = [&](std::size_t k) -> const MaskedValue& {
      return values[std::size_t(op.operands[k])];
    };
    MaskedValue out;
    bool far = false;
    for (std::size_t k = 0; k < op.operands.size(); ++k) {
      join(&out, operand(k));
      far = far || operand(k).stands_in();
    }
    if (far) return of_far(op, values, out);
    switch (op.op.kind) {
      case BlockOp::Kind::select: {
        if (mask_.key.empty() && !out_.adds) find_mask(loop, op, values, keys, link, row);
        std::optional<bool> known = operand(0).known;
        if (!known && !mask_.key.empty()) known = known_now(loop, op.operands[0], keys);
        if (known) return operand(*known ? 1 : 2);
        return out;
      }
      case BlockOp::Kind::unary:
        if (op.op.opcode == ir::Opcode::negate) out.zero_if = operand(0).zero_if;
        if (op.op.opcode == ir::Opcode::not_ && op.op.type == DType::pred && operand(0).known) {
          out.known = !*operand(0).known;
        }
        return out;
      case BlockOp::Kind::convert:
      case BlockOp::Kind::lift:
      case BlockOp::Kind::round:
      case BlockOp::Kind::copy:
        out.zero_if = operand(0).zero_if;
        out.known = operand(0).known;
        out.largest = operand(0).largest && is_floating(op.op.to);
        if (is_floating(op.op.to)) out.scale = operand(0).scale;
        return out;
      case BlockOp::Kind::binary:
        if (op.op.opcode == ir::Opcode::add && of_added(loop, op, values, keys, link, row, &out)) {
          return out;
        }
        of_binary(op.op, operand(0), operand(1), &out);
        out.scale = scaled(loop, op, values);
        out.largest = op.op.opcode == ir::Opcode::maximum &&
                      (operand(0).largest || operand(1).largest) && is_floating(op.op.type);
        return out;
      default:
        return out;
    }
  }

  /// Of an operation on what is far below.
  MaskedValue of_far(const LoopExpr::Op& op, const std::vector<MaskedValue>& values,
                     MaskedValue joined) {
    using Far = MaskedValue::Far;
    MaskedValue out = values[std::size_t(op.operands[0])];
    switch (op.op.kind) {
      case BlockOp::Kind::convert:
      case BlockOp::Kind::lift:
      case BlockOp::Kind::round:
      case BlockOp::Kind::copy:
        if (is_floating(op.op.to)) return out;
        break;
      case BlockOp::Kind::unary:
        if (op.op.opcode == ir::Opcode::exponential && out.far == Far::less_largest) {
          out.far = Far::no;
          return out;
        }
        break;
      case BlockOp::Kind::binary: {
        const MaskedValue& b = values[std::size_t(op.operands[1])];
        if (op.op.opcode == ir::Opcode::subtract && out.far == Far::row && b.largest && !b.varies) {
          out.far = Far::less_largest;
          return out;
        }
        break;
      }
      default:
        break;
    }
    whole_.insert(out_.product);
    return joined;
  }

  /// A product times a constant.
  static std::optional<double> scaled(const LoopExpr& loop, const LoopExpr::Op& op,
                                      const std::vector<MaskedValue>& values) {
    const bool times = op.op.opcode == ir::Opcode::multiply;
    if (op.op.type != DType::f32 || !(times || op.op.opcode == ir::Opcode::divide)) {
      return std::nullopt;
    }
    for (std::size_t k = 0; k < (times ? 2 : 1); ++k) {
      const std::optional<double> scale = values[std::size_t(op.operands[k])].scale;
      const std::optional<double> c = constant_of(loop, op.operands[1 - k]);
      if (scale && c) return times ? *scale * *c : *scale / *c;
    }
    return std::nullopt;
  }

  /// Takes what is added to a product for the mask, or finds that it is.
  bool of_added(const LoopExpr& loop, const LoopExpr::Op& add,
                const std::vector<MaskedValue>& values, const std::vector<std::string>& keys,
                const TiledChain::Link& link, std::int64_t row, MaskedValue* out) {
    if (add.op.type != DType::f32 || row == 0) return false;
    for (std::size_t k = 0; k < 2; ++k) {
      const auto addend = std::size_t(add.operands[1 - k]);
      const MaskedValue &s = values[std::size_t(add.operands[k])], &a = values[addend];
      if (!s.scale || *s.scale == 0 || !std::isfinite(*s.scale) || s.not_made.size() != 1 ||
          keys[addend].empty() || !a.varies || !a.not_made.empty() || a.stands_in()) {
        continue;
      }
      const std::size_t product = *s.not_made.begin();
      if (out_.adds ? keys[addend] != addend_ || product != out_.product
                    : !mask_.key.empty() || chain_.links[product].units() != chain_.rows ||
                          !take_mask(loop, int(addend), DType::f32, link, row)) {
        return false;
      }
      out_.adds = true;
      out_.product = product;
      out_.scale = *s.scale;
      addend_ = keys[addend];
      *out = MaskedValue();
      out->relies = s.relies;
      out->far = MaskedValue::Far::row;
      return true;
    }
    return false;
  }

  /// Takes a select's predicate for the mask, if it chooses between a product and what is the same
  /// for a row.
  void find_mask(const LoopExpr& loop, const LoopExpr::Op& select,
                 const std::vector<MaskedValue>& values, const std::vector<std::string>& keys,
                 const TiledChain::Link& link, std::int64_t row) {
    if (row == 0) return;
    const auto at = [&](std::size_t k) { return std::size_t(select.operands[k]); };
    const MaskedValue &yes = values[at(1)], &no = values[at(2)];
    const bool hides = !yes.varies && yes.not_made.empty();
    if (hides == (!no.varies && no.not_made.empty())) return;
    if ((hides ? no : yes).not_made.empty()) return;
    if (keys[at(0)].empty() || !values[at(0)].varies) return;
    const int predicate = without_true(loop, select.operands[0]);
    if (!take_mask(loop, predicate, DType::pred, link, row)) return;
    mask_ = {keys[std::size_t(predicate)], hides};
    out_.hides = hides;
  }

  /// Makes a register's value the mask, whose rows have so many columns.
  bool take_mask(const LoopExpr& loop, int reg, DType type, const TiledChain::Link& link,
                 std::int64_t row) {
    const MaskRegister& read = loop.registers[std::size_t(reg)];
    const bool made_before =
        read.kind == LoopExpr::Kind::contiguous && has_place(link.inputs[std::size_t(read.index)]);
    if (made_before) {
      const Place& p = link.inputs[std::size_t(read.index)];
      const TiledChain::Link& maker = chain_.links[makers_.at(p)];
      out_.mask = maker.kernel;
      out_.inputs = maker.inputs;
    } else {
      auto program = program_of_register(loop, reg, type);
      const bool reads_made =
          std::any_of(program->registers.begin(), program->registers.end(), [&](const auto& r) {
            return reads_one(r) && has_place(link.inputs[std::size_t(r.index)]);
          });
      if (reads_made) return false;
      out_.mask = loop_kernel(std::move(program), chain_.rows * row, link.inputs.size());
      out_.inputs = link.inputs;
      out_.period = type == DType::f32 ? period_of(read, row) : 0;
      if (out_.period > 0) out_.inputs = {link.inputs[std::size_t(read.index)]};
    }
    out_.columns = row;
    for (std::size_t p = 0; p < chain_.links.size(); ++p) {
      if (out_.links[p].kind == How::results && product_at(p).columns != row) {
        whole_.insert(p);
      }
    }
    return true;
  }

  static bool reads_one(const MaskRegister& r) {
    return r.kind == LoopExpr::Kind::contiguous || r.kind == LoopExpr::Kind::scalar ||
           r.kind == LoopExpr::Kind::broadcast;
  }

  /// Whether a predicate is the mask that was just found, but for what is always true.
  std::optional<bool> known_now(const LoopExpr& loop, int predicate,
                                const std::vector<std::string>& keys) const {
    if (keys[std::size_t(without_true(loop, predicate))] != mask_.key) return std::nullopt;
    return mask_.hides;
  }

  /// What an input is, as text; empty if it isn't one of the chain's, or is read in other ways.
  std::string key_of(const LoopExpr& loop, const MaskRegister& r,
                     const TiledChain::Link& link) const {
    KeyWriter key("read");
    if (r.kind == LoopExpr::Kind::constant) {
      const std::byte* at = loop.constants.data() + r.constant;
      key.add_all(r.kind, std::vector<std::byte>(at, at + r.element_bytes));
      return key.take();
    }
    if (r.kind == LoopExpr::Kind::iota) {
      key.add_all(r.kind, r.dims, r.dtype);
      return key.take();
    }
    if (!reads_one(r) || !r.starts.empty() || r.window) return {};
    const Place& p = link.inputs[std::size_t(r.index)];
    if (has_place(p)) {
      const bool all = r.kind == LoopExpr::Kind::contiguous && r.offset == 0;
      return all ? value_at(p).text : std::string();
    }
    key.add_all(r.kind, p.number, r.element_bytes, r.offset, r.dims, r.strides);
    return key.take();
  }
  const TiledChain& chain_;
  std::set<std::size_t> whole_;
  MaskText mask_;
  std::string addend_;  ///< what is added, if that is the mask
  MaskedColumns out_;
  std::map<Place, MaskedValue> values_;  ///< by place
  std::map<Place, std::size_t> makers_;  ///< loops, by place
  std::set<std::pair<std::size_t, LinkOutput>> conditions_;
};

}  // namespace

std::optional<MaskedColumns> masked_columns(const TiledChain& chain) {
  std::set<std::size_t> whole;
  for (std::size_t k = 0; k <= chain.links.size(); ++k) {
    MaskAnalysis analysis(chain, whole);
    if (analysis.run()) return analysis.take();
    whole = analysis.whole();
  }
  return std::nullopt;
}

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

}  // namespace tessera::codegen
