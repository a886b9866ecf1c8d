// SPDX-License-Identifier: Apache-2.0
// The report as text.
#include <fmt/format.h>

#include <tessera/explain.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera {
namespace {

/// 8,192
std::string grouped(double v) {
  std::string digits = fmt::format("{:.0f}", std::round(v));
  for (auto at = std::ptrdiff_t(digits.size()) - 3; at > (v < 0 ? 1 : 0); at -= 3) {
    digits.insert(std::size_t(at), 1, ',');
  }
  return digits;
}

std::string at(const std::string& location) {
  return location.empty() ? std::string() : " at " + location;
}

std::string step_text(const ExplainStep& s) {
  if (s.how == "stated") return s.op + " " + s.spec + at(s.location);
  if (s.how == "chosen by cost") {
    return "chosen by cost" + (s.op.empty() ? "" : " for " + s.op + at(s.location));
  }
  return s.op + at(s.location);
}

void append_chains(std::string* out, const char* title, const std::vector<ExplainChain>& chains) {
  constexpr std::size_t kMost = 8;
  if (chains.empty()) return;
  *out += fmt::format("   {}\n", title);
  for (std::size_t k = 0; k < chains.size() && k < kMost; ++k) {
    *out += "     " + chains[k].to_string() + "\n";
  }
  if (chains.size() > kMost) *out += fmt::format("     and {} more\n", chains.size() - kMost);
}

/// 12.3 us
std::string time_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 1e-6) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return fmt::format("{:.3g} ms", seconds * 1e3);
}

void append_choice(std::string* out, const ExplainValue& v, const std::vector<ExplainValue>& all) {
  const ExplainChoice& c = *v.choice;
  *out += fmt::format("  {} {} of {}{}: {}, {}", v.name, v.type, v.op, at(v.location), c.spec,
                      time_text(c.seconds));
  *out += c.next_spec.empty()
              ? "; there is no other"
              : fmt::format("; next best {}, {}", c.next_spec, time_text(c.next_seconds));
  if (!c.with.empty()) *out += fmt::format(" (with {} more)", c.with.size());
  *out += "\n";
  for (const ExplainEdge& e : c.edges) {
    if (e.seconds == 0 && e.next_seconds == 0) continue;
    const ExplainValue& op = all[std::size_t(e.op)];
    *out += fmt::format("     {} {}{}, {}: {}{}\n",
                        e.operand < 0        ? "from"
                        : op.op == "results" ? "to the"
                                             : fmt::format("to operand {} of", e.operand),
                        op.op, at(op.location), e.spec, time_text(e.seconds),
                        c.next_spec.empty() ? "" : ", else " + time_text(e.next_seconds));
  }
}

}  // namespace

std::string ExplainChain::to_string() const {
  std::string out;
  if (axes.empty()) {
    out = !steps.empty() && steps[0].how == "chosen by cost" ? steps[0].spec : "replicated";
  } else if (dim < 0) {
    out = "partial sums over " + axes;
  } else {
    out = axes + " on dim " + std::to_string(dim);
  }
  // An operation of the user's is several of the program's: one word for those in a row.
  std::vector<std::string> parts;
  for (const ExplainStep& s : steps) {
    const bool passes_on = s.op == "tuple" || s.op == "get-tuple-element";
    const bool last = &s == &steps.back();
    // A result is stated on the tuple that passes it on.
    if (!last && (passes_on || (s.op == (&s)[1].op && (&s)[1].how == "stated"))) continue;
    std::string part = step_text(s);
    if (parts.empty() || parts.back() != part) parts.push_back(std::move(part));
  }
  constexpr std::size_t kHead = 4, kTail = 3;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (parts.size() > kHead + kTail + 1 && k == kHead) {
      out += fmt::format(" <- ... {} more ...", parts.size() - kHead - kTail);
      k = parts.size() - kTail;
    }
    out += " <- " + parts[k];
  }
  return out;
}

std::string ExplainSuggestion::to_string() const {
  std::string out = target + at(location) + ": " + spec;
  if (!was.empty()) out += " in place of " + was;
  out += fmt::format(" (a device then receives {} bytes in all, {} fewer", grouped(total_bytes),
                     grouped(saved_bytes));
  if (more_held_bytes > 0) {
    out += fmt::format(", and holds {} more of arguments and results", grouped(more_held_bytes));
  }
  return out + ")";
}

std::string ExplainEntry::to_text() const {
  std::string out = fmt::format("{} bytes  {}{}", grouped(bytes), op, at(location));
  if (!op_name.empty()) out += "  " + op_name;
  if (full_gather) out += "  FULL GATHER";
  out += "\n";
  if (!tensor.empty()) {
    out += fmt::format("   {} {}", tensor, type);
    if (!from.empty() || !to.empty()) {
      out += from == to ? " in " + from : fmt::format(" goes from {} to {}", from, to);
    }
    out += "\n";
  }
  if (!reason.empty()) out += "   for: " + reason + "\n";
  constexpr std::size_t kMost = 8;
  for (std::size_t k = 0; k < collectives.size() && k < kMost; ++k) {
    const ExplainCollective& c = collectives[k];
    out += fmt::format("   {} {} bytes", c.kind, grouped(c.bytes));
    if (c.times != 1) out += fmt::format(" x {:.0f}", c.times);
    if (!c.trips_known) out += " (in a loop whose trips aren't known)";
    if (!c.counted) out += " (in a branch that isn't the most expensive one: not counted)";
    out += fmt::format("  {} in {}\n", c.instruction, c.computation);
  }
  if (collectives.size() > kMost) {
    out += fmt::format("   and {} more collectives\n", collectives.size() - kMost);
  }
  append_chains(&out, "it is sharded so because:", from_because);
  append_chains(&out, "it must be resharded because:", to_because);
  if (!conflicts.empty()) {
    out += "   what prevents leaving it as it is:\n";
    for (const std::string& c : conflicts) out += "     " + c + "\n";
  }
  if (suggestion) {
    out += "   to avoid it: " + suggestion->to_string() + "\n";
  } else if (tried > 0) {
    out += fmt::format(
        "   to avoid it: none of the {} annotations tried lowers the bytes without repeating "
        "work\n",
        tried);
  }
  return out;
}

std::vector<ExplainEntry> Explanation::full_gathers() const {
  std::vector<ExplainEntry> out;
  std::copy_if(entries_.begin(), entries_.end(), std::back_inserter(out),
               [](const ExplainEntry& e) { return e.full_gather; });
  return out;
}

std::string Explanation::to_text() const {
  std::string out = fmt::format("{} on {} device{}", module_, devices_, devices_ == 1 ? "" : "s");
  if (!mesh_.empty()) out += " (" + mesh_ + ")";
  if (devices_ > 1) out += ", layouts " + to_string(layouts_);
  if (entries_.empty()) return out + ": nothing is communicated\n";
  std::map<std::string, std::pair<std::size_t, double>> kinds;
  for (const ExplainEntry& e : entries_) {
    for (const ExplainCollective& c : e.collectives) {
      auto& k = kinds[c.kind];
      ++k.first;
      if (c.counted) k.second += c.bytes * c.times;
    }
  }
  out += fmt::format(": a device receives {} bytes in {} movement{}", grouped(total_bytes_),
                     entries_.size(), entries_.size() == 1 ? "" : "s");
  const std::size_t gathers = full_gathers().size();
  if (gathers > 0) out += fmt::format(", {} full gather{}", gathers, gathers == 1 ? "" : "s");
  out += "\n";
  for (const auto& [kind, k] : kinds) {
    out += fmt::format("  {} {} bytes in {}\n", kind, grouped(k.second), k.first);
  }
  for (std::size_t k = 0; k < entries_.size(); ++k) {
    out += fmt::format("\n{}. {}", k + 1, entries_[k].to_text());
  }
  // What costs most, as far as it could be otherwise.
  std::vector<const ExplainValue*> chosen;
  for (const ExplainValue& v : values_) {
    if (v.choice && v.choice->seconds > 0) chosen.push_back(&v);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const ExplainValue* a, const ExplainValue* b) {
    return a->choice->seconds > b->choice->seconds;
  });
  constexpr std::size_t kMost = 10;
  if (!chosen.empty()) out += "\nchosen by cost, with estimated times of one run:\n";
  for (std::size_t k = 0; k < chosen.size() && k < kMost; ++k) {
    append_choice(&out, *chosen[k], values_);
  }
  if (chosen.size() > kMost) out += fmt::format("  and {} more\n", chosen.size() - kMost);
  return out;
}

}  // namespace tessera
