// SPDX-License-Identifier: Apache-2.0
// Goes through the links of a chain with what is known of each array where columns are hidden.
#include "src/codegen/kernels/masked_columns.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "src/codegen/kernels/fused_loop.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loop_expr.h"

namespace tessera::codegen {
namespace {

using Place = TiledChain::Place;
using LinkOutput = MaskedColumns::Array;
using How = MaskedColumns::Link::Kind;
using MaskRegister = LoopExpr::Register;

/// Masks are a few operations.
constexpr std::size_t kLongestText = 4096;

/// What is known of a value in hidden columns.
struct Hidden {
  bool varies = false;             ///< from column to column
  std::set<std::size_t> not_made;  ///< products that it depends on, which aren't computed there
  std::set<LinkOutput> zero_if;    ///< it is zero if one of these is
  std::set<std::pair<std::size_t, LinkOutput>>
      unless;                    ///< products on which it depends if these aren't zero
  std::set<std::size_t> relies;  ///< links that make it the same in all hidden columns of a row
  std::optional<bool> known;     ///< of a predicate
  std::string text;              ///< what it is, if it is made of inputs of the chain alone

  bool uniform() const { return !varies && not_made.empty(); }
};

void join(Hidden* into, const Hidden& v) {
  into->varies = into->varies || v.varies;
  into->not_made.insert(v.not_made.begin(), v.not_made.end());
  into->unless.insert(v.unless.begin(), v.unless.end());
  into->relies.insert(v.relies.begin(), v.relies.end());
}

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
  Hidden value_at(const Place& p) const {
    const auto it = values_.find({int(p.kind), p.number});
    if (it != values_.end()) return it->second;
    Hidden out;
    out.varies = true;
    return out;
  }
  void set(const TiledChain::Link& link, std::size_t output, Hidden v) {
    const Place& p = link.outputs[output];
    values_[{int(p.kind), p.number}] = std::move(v);
  }

  void visit(std::size_t l) {
    const TiledChain::Link& link = chain_.links[l];
    MaskedColumns::Link& to = out_.links[l];
    const ProductParts& parts = link.kernel.parts;
    if (link.sums) return visit_sums(link, &to);
    if (parts && link.kernel.rereads_per_call) {
      const Hidden lhs = value_at(link.inputs[0]), rhs = value_at(link.inputs[1]);
      need(rhs);
      need(lhs);
      if (parts.depth == columns() && !lhs.zero_if.empty()) {
        to.kind = How::terms;
        to.zero = {*lhs.zero_if.begin()};
      }
      Hidden made;
      made.varies = true;
      // What the chain returns is wanted whole.
      if (whole_.count(l) == 0 && link.outputs[0].kind == Place::Kind::scratch &&
          (columns() == 0 || parts.columns == columns()) && to.kind == How::whole) {
        to.kind = How::results;
        made.varies = false;
        made.not_made.insert(l);
        made.relies.insert(l);
      }
      set(link, 0, std::move(made));
      return;
    }
    if (const LoopExpr* loop = link.kernel.loop.get()) {
      if (visit_loop(l, *loop)) return;
    } else if (const LoopExpr* reduced = link.kernel.reduced.get()) {
      const Hidden v = of_output(*reduced, link, l, 0);
      need(v);
    } else {
      for (const Place& p : link.inputs) need(value_at(p));
    }
    for (std::size_t o = 0; o < link.outputs.size(); ++o) {
      Hidden made;
      made.varies = true;
      set(link, o, std::move(made));
    }
  }

  std::int64_t columns() const { return out_.columns; }

  /// What depends on a product that isn't computed needs it to be.
  void need(const Hidden& v) {
    whole_.insert(v.not_made.begin(), v.not_made.end());
    conditions_.insert(v.unless.begin(), v.unless.end());
  }

  void visit_sums(const TiledChain::Link& link, MaskedColumns::Link* to) {
    const DotSizes& sizes = link.sums->sizes;
    for (std::size_t k = 0; k < 2; ++k) {
      const Hidden v = value_at(link.inputs[k]);
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
    const std::int64_t elements = link.units / chain_.rows;
    std::size_t outputs = 0;
    bool plain = link.units % chain_.rows == 0 && loop.only_source < 0;
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
      return false;
    }
    std::vector<Hidden> of_outputs;
    for (std::size_t o = 0; o < outputs; ++o)
      of_outputs.push_back(of_output(loop, link, l, int(o)));
    if (columns() == 0) {
      for (const Hidden& v : of_outputs) need(v);
      if (outputs != 1) return false;
      Hidden made;
      made.varies = true;
      made.text = of_outputs[0].text;
      set(link, 0, std::move(made));
      makers_[{int(link.outputs[0].kind), link.outputs[0].number}] = l;
      return true;
    }
    bool uniform = true;
    std::set<std::size_t> relies;
    for (const Hidden& v : of_outputs) {
      need(v);
      uniform = uniform && !v.varies;
      relies.insert(v.relies.begin(), v.relies.end());
    }
    for (std::size_t o = 0; o < outputs; ++o) {
      Hidden v;
      v.varies = !uniform;
      if (uniform) {
        v.zero_if.insert({l, o});
        v.relies.insert(l);
      }
      if (outputs == 1) v.text = of_outputs[0].text;
      set(link, o, std::move(v));
      makers_[{int(link.outputs[o].kind), link.outputs[o].number}] = l;
    }
    if (uniform) {
      out_.links[l].kind = How::loop;
      out_.links[l].relies.assign(relies.begin(), relies.end());
    }
    return true;
  }

  /// Of an output of a loop, or of what is reduced.
  Hidden of_output(const LoopExpr& loop, const TiledChain::Link& link, std::size_t l, int output) {
    const std::vector<Hidden> values = of_registers(loop, link, l);
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (loop.registers[r].kind == LoopExpr::Kind::output && loop.registers[r].index == output) {
        return values[r];
      }
    }
    Hidden unknown;
    for (const Place& p : link.inputs) join(&unknown, value_at(p));
    unknown.varies = true;
    return unknown;
  }

  std::vector<Hidden> of_registers(const LoopExpr& loop, const TiledChain::Link& link,
                                   std::size_t l) {
    std::vector<Hidden> out(loop.registers.size());
    std::vector<std::string> keys(loop.registers.size());
    std::int64_t row = 0;
    if (link.kernel.loop) row = link.units / chain_.rows;
    if (link.kernel.reduced) row = columns() != 0 ? columns() : columns_of_products(link);
    for (std::size_t r = 0; r < out.size(); ++r) {
      out[r] = of_input(loop.registers[r], link, row);
      keys[r] = key_of(loop, loop.registers[r], link);
      if (!keys[r].empty() && keys[r] == mask_.key) out[r].known = mask_.hides;
    }
    for (const LoopExpr::Op& op : loop.ops) {
      const auto o = std::size_t(op.out);
      keys[o] = key_of(op, keys);
      out[o] = of_op(loop, op, out, keys, link, l, row);
      if (!keys[o].empty() && keys[o] == mask_.key) out[o].known = mask_.hides;
      out[o].text = keys[o];
    }
    return out;
  }

  /// Of those that aren't made yet.
  std::int64_t columns_of_products(const TiledChain::Link& link) const {
    for (const Place& p : link.inputs) {
      const Hidden v = value_at(p);
      if (!v.not_made.empty()) return chain_.links[*v.not_made.begin()].kernel.parts.columns;
    }
    return 0;
  }

  Hidden of_input(const MaskRegister& r, const TiledChain::Link& link, std::int64_t row) const {
    Hidden out;
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
        const Hidden v = value_at(link.inputs[std::size_t(r.index)]);
        if (r.starts.empty() && r.offset == 0) return v;
        join(&out, v);
        out.varies = true;
        return out;
      }
      case LoopExpr::Kind::broadcast: {
        join(&out, value_at(link.inputs[std::size_t(r.index)]));
        out.varies = !same_in_row(r, row);
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

  /// Whether all elements of a row read one.
  static bool same_in_row(const MaskRegister& r, std::int64_t row) {
    if (r.window || row == 0) return false;
    std::int64_t inner = 1;
    for (std::size_t d = r.dims.size(); d-- > 0 && inner < row;) {
      if (r.dims[d] != 1 && r.strides[d] != 0) return false;
      inner *= r.dims[d];
    }
    return inner % row == 0;
  }

  Hidden of_op(const LoopExpr& loop, const LoopExpr::Op& op, const std::vector<Hidden>& values,
               const std::vector<std::string>& keys, const TiledChain::Link& link, std::size_t l,
               std::int64_t row) {
    const auto operand = [&](std::size_t k) -> const Hidden& {
      return values[std::size_t(op.operands[k])];
    };
    Hidden out;
    for (std::size_t k = 0; k < op.operands.size(); ++k) join(&out, operand(k));
    switch (op.op.kind) {
      case BlockOp::Kind::select: {
        if (mask_.key.empty()) find_mask(loop, op, values, keys, link, l, row);
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
        return out;
      case BlockOp::Kind::binary:
        of_binary(op.op, operand(0), operand(1), &out);
        return out;
      default:
        return out;
    }
  }

  void of_binary(const BlockOp& op, const Hidden& a, const Hidden& b, Hidden* out) const {
    if (op.type == DType::pred && (a.known || b.known)) {
      const bool is_and = op.opcode == ir::Opcode::and_ || op.opcode == ir::Opcode::multiply;
      const bool is_or = op.opcode == ir::Opcode::or_ || op.opcode == ir::Opcode::add;
      if (is_and || is_or) {
        // False of an and, true of an or, whatever the other one is.
        for (const Hidden* v : {&a, &b}) {
          if (v->known && *v->known == is_or) {
            *out = Hidden();
            out->known = is_or;
            return;
          }
        }
        if (a.known && b.known) out->known = *a.known;
      }
      return;
    }
    if (!is_floating(op.type)) return;
    if (op.opcode == ir::Opcode::divide) {
      out->zero_if = a.zero_if;
      return;
    }
    if (op.opcode != ir::Opcode::multiply) return;
    for (const auto& [zero, other] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
      if (zero->zero_if.empty() || !zero->not_made.empty()) continue;
      out->zero_if = zero->zero_if;
      // Zero times what isn't computed there, and is of moderate size.
      for (const std::size_t product : other->not_made) {
        out->unless.insert({product, *zero->zero_if.begin()});
      }
      out->not_made.clear();
      return;
    }
  }

  /// Takes a select's predicate for the mask, if it chooses between a product and what is the same
  /// for a row.
  void find_mask(const LoopExpr& loop, const LoopExpr::Op& select,
                 const std::vector<Hidden>& values, const std::vector<std::string>& keys,
                 const TiledChain::Link& link, std::size_t l, std::int64_t row) {
    if (row == 0) return;
    const auto at = [&](std::size_t k) { return std::size_t(select.operands[k]); };
    const Hidden &yes = values[at(1)], &no = values[at(2)];
    const bool hides = !yes.varies && yes.not_made.empty();
    if (hides == (!no.varies && no.not_made.empty())) return;
    if ((hides ? no : yes).not_made.empty()) return;
    if (keys[at(0)].empty() || !values[at(0)].varies) return;
    const int predicate = without_true(loop, select.operands[0]);
    const MaskRegister& read = loop.registers[std::size_t(predicate)];
    const bool made_before =
        read.kind == LoopExpr::Kind::contiguous && has_place(link.inputs[std::size_t(read.index)]);
    if (made_before) {
      const Place& p = link.inputs[std::size_t(read.index)];
      const TiledChain::Link& maker = chain_.links[makers_.at({int(p.kind), p.number})];
      out_.mask = maker.kernel;
      out_.inputs = maker.inputs;
    } else {
      auto program = program_of_register(loop, predicate);
      const bool reads_made =
          std::any_of(program->registers.begin(), program->registers.end(), [&](const auto& r) {
            return r.kind == LoopExpr::Kind::contiguous &&
                   has_place(link.inputs[std::size_t(r.index)]);
          });
      if (reads_made) return;
      out_.mask = loop_kernel(std::move(program), chain_.rows * row, link.inputs.size());
      out_.inputs = link.inputs;
    }
    mask_ = {keys[std::size_t(predicate)], hides};
    out_.columns = row;
    out_.hides = hides;
    for (std::size_t p = 0; p < l; ++p) {
      if (out_.links[p].kind == How::results && chain_.links[p].kernel.parts.columns != row) {
        whole_.insert(p);
      }
    }
  }

  /// Whether a predicate is the mask that was just found, but for what is always true.
  std::optional<bool> known_now(const LoopExpr& loop, int predicate,
                                const std::vector<std::string>& keys) const {
    if (keys[std::size_t(without_true(loop, predicate))] != mask_.key) return std::nullopt;
    return mask_.hides;
  }

  /// The mask of and(true, mask), as masks are written that come with others or not.
  static int without_true(const LoopExpr& loop, int predicate) {
    for (std::size_t k = loop.ops.size(); k-- > 0;) {
      const LoopExpr::Op& op = loop.ops[k];
      if (op.out != predicate || op.op.kind != BlockOp::Kind::binary ||
          op.op.opcode != ir::Opcode::and_) {
        continue;
      }
      for (std::size_t o = 0; o < 2; ++o) {
        const MaskRegister& r = loop.registers[std::size_t(op.operands[o])];
        if (r.kind == LoopExpr::Kind::constant &&
            loop.constants[std::size_t(r.constant)] == std::byte{1}) {
          predicate = op.operands[1 - o];
          break;
        }
      }
    }
    return predicate;
  }

  /// A program with one register of another as its output.
  static std::shared_ptr<const LoopExpr> program_of_register(const LoopExpr& loop, int wanted) {
    auto out = std::make_shared<LoopExpr>();
    out->constants = loop.constants;
    std::set<int> needed = {wanted};
    for (std::size_t k = loop.ops.size(); k-- > 0;) {
      if (needed.count(loop.ops[k].out) == 0) continue;
      needed.insert(loop.ops[k].operands.begin(), loop.ops[k].operands.end());
    }
    std::map<int, int> now;
    for (const int r : needed) {
      now[r] = int(out->registers.size());
      out->registers.push_back(loop.registers[std::size_t(r)]);
      MaskRegister& made = out->registers.back();
      if (made.kind == LoopExpr::Kind::output) made.kind = LoopExpr::Kind::temporary;
    }
    for (const LoopExpr::Op& op : loop.ops) {
      if (needed.count(op.out) == 0) continue;
      out->ops.push_back(op);
      out->ops.back().out = now.at(op.out);
      for (int& o : out->ops.back().operands) o = now.at(o);
    }
    MaskRegister result;
    result.kind = LoopExpr::Kind::output;
    result.element_bytes = 1;
    result.dtype = DType::pred;
    LoopExpr::Op copy;
    copy.op.kind = BlockOp::Kind::copy;
    copy.op.element_bytes = 1;
    copy.op.type = copy.op.to = DType::pred;
    copy.operands = {now.at(wanted)};
    copy.out = int(out->registers.size());
    out->registers.push_back(result);
    out->ops.push_back(copy);
    out->nanoseconds = 0.1 * double(out->ops.size());
    return out;
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
    const bool reads = r.kind == LoopExpr::Kind::contiguous || r.kind == LoopExpr::Kind::scalar ||
                       r.kind == LoopExpr::Kind::broadcast;
    if (!reads || !r.starts.empty() || r.window) return {};
    const Place& p = link.inputs[std::size_t(r.index)];
    if (has_place(p)) {
      const bool all = r.kind == LoopExpr::Kind::contiguous && r.offset == 0;
      return all ? value_at(p).text : std::string();
    }
    key.add_all(r.kind, p.number, r.element_bytes, r.offset, r.dims, r.strides);
    return key.take();
  }
  static std::string key_of(const LoopExpr::Op& o, const std::vector<std::string>& keys) {
    KeyWriter key("op");
    key.add_all(o.op.kind, o.op.opcode, o.op.type, o.op.to, o.op.direction, o.op.comparison,
                o.op.element_bytes, o.op.last, o.op.precision.exponent_bits,
                o.op.precision.mantissa_bits);
    for (const int operand : o.operands) {
      const std::string& of_it = keys[std::size_t(operand)];
      if (of_it.empty()) return {};
      key.add(of_it);
    }
    // What stands for itself twice, over and over, would be long.
    std::string out = key.take();
    return out.size() > kLongestText ? std::string() : out;
  }

  const TiledChain& chain_;
  std::set<std::size_t> whole_;
  MaskText mask_;
  MaskedColumns out_;
  std::map<std::pair<int, int>, Hidden> values_;       ///< by place
  std::map<std::pair<int, int>, std::size_t> makers_;  ///< loops, by place
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

}  // namespace tessera::codegen
