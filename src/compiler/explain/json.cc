// SPDX-License-Identifier: Apache-2.0
// The report as JSON.
#include "src/compiler/explain/json.h"

#include <tessera/explain.h>

#include "src/compiler/explain/page.h"

namespace tessera {
namespace compiler::explain {

std::string JsonWriter::valid_utf8(std::string_view v) {
  std::string out;
  out.reserve(v.size());
  for (std::size_t k = 0; k < v.size();) {
    const auto u = static_cast<unsigned char>(v[k]);
    std::size_t n = u < 0x80                ? 1
                    : u >= 0xF0 && u < 0xF5 ? 4
                    : u >= 0xE0 && u < 0xF0 ? 3
                    : u >= 0xC2 && u < 0xE0 ? 2
                                            : 0;
    bool good = n > 0 && k + n <= v.size();
    for (std::size_t j = 1; good && j < n; ++j) {
      const auto c = static_cast<unsigned char>(v[k + j]);
      good = (c & 0xC0) == 0x80;
      // Overlong forms, surrogates and what is beyond Unicode show in the second byte.
      if (j == 1 && ((u == 0xE0 && c < 0xA0) || (u == 0xED && c > 0x9F) ||
                     (u == 0xF0 && c < 0x90) || (u == 0xF4 && c > 0x8F))) {
        good = false;
      }
    }
    if (good) {
      out.append(v.substr(k, n));
      k += n;
    } else {
      out += '?';
      ++k;
    }
  }
  return out;
}

namespace {

void write_chains(JsonWriter& w, const char* key, const std::vector<ExplainChain>& chains) {
  w.key(key).begin('[');
  for (const ExplainChain& c : chains) {
    w.begin('{');
    w.key("axes").string(c.axes);
    w.key("dim").number(double(c.dim));
    w.key("text").string(c.to_string());
    w.key("steps").begin('[');
    for (const ExplainStep& s : c.steps) {
      w.begin('{');
      w.key("tensor").string(s.tensor);
      w.key("spec").string(s.spec);
      w.key("op").string(s.op);
      w.key("location").string(s.location);
      w.key("how").string(s.how);
      w.end('}');
    }
    w.end(']');
    w.end('}');
  }
  w.end(']');
}

void write_entry(JsonWriter& w, const ExplainEntry& e) {
  w.begin('{');
  w.key("op").string(e.op);
  w.key("op_name").string(e.op_name);
  w.key("location").string(e.location);
  w.key("tensor").string(e.tensor);
  w.key("type").string(e.type);
  w.key("from").string(e.from);
  w.key("to").string(e.to);
  w.key("reason").string(e.reason);
  w.key("full_gather").boolean(e.full_gather);
  w.key("bytes").number(e.bytes);
  w.key("collectives").begin('[');
  for (const ExplainCollective& c : e.collectives) {
    w.begin('{');
    w.key("kind").string(c.kind);
    w.key("instruction").string(c.instruction);
    w.key("computation").string(c.computation);
    w.key("bytes").number(c.bytes);
    w.key("times").number(c.times);
    w.key("trips_known").boolean(c.trips_known);
    w.key("counted").boolean(c.counted);
    w.end('}');
  }
  w.end(']');
  write_chains(w, "from_because", e.from_because);
  write_chains(w, "to_because", e.to_because);
  w.key("conflicts").begin('[');
  for (const std::string& c : e.conflicts) w.string(c);
  w.end(']');
  w.key("suggestion");
  if (e.suggestion) {
    const ExplainSuggestion& s = *e.suggestion;
    w.begin('{');
    w.key("target").string(s.target);
    w.key("location").string(s.location);
    w.key("spec").string(s.spec);
    w.key("was").string(s.was);
    w.key("total_bytes").number(s.total_bytes);
    w.key("saved_bytes").number(s.saved_bytes);
    w.key("more_held_bytes").number(s.more_held_bytes);
    w.key("text").string(s.to_string());
    w.end('}');
  } else {
    w.null();
  }
  w.key("tried").number(e.tried);
  w.end('}');
}

void write_value(JsonWriter& w, const ExplainValue& v) {
  w.begin('{');
  w.key("name").string(v.name);
  w.key("op").string(v.op);
  w.key("op_name").string(v.op_name);
  w.key("location").string(v.location);
  w.key("type").string(v.type);
  w.key("spec").string(v.spec);
  w.key("computation").string(v.computation);
  w.key("operands").begin('[');
  for (std::int64_t o : v.operands) w.number(double(o));
  w.end(']');
  w.key("causes").begin('[');
  for (const ExplainCause& c : v.causes) {
    w.begin('{');
    w.key("dim").number(double(c.dim));
    w.key("axes").string(c.axes);
    w.key("op").string(c.op);
    w.key("location").string(c.location);
    w.key("how").string(c.how);
    w.key("from").number(double(c.from));
    w.end('}');
  }
  w.end(']');
  w.key("entries").begin('[');
  for (std::int64_t e : v.entries) w.number(double(e));
  w.end(']');
  w.key("bytes").number(v.bytes);
  w.end('}');
}

}  // namespace

void write_report(JsonWriter& w, const Explanation& e) {
  w.key("module").string(e.module());
  w.key("devices").number(double(e.num_devices()));
  w.key("mesh").string(e.mesh());
  w.key("total_bytes").number(e.total_bytes());
  w.key("entries").begin('[');
  for (const ExplainEntry& entry : e.entries()) write_entry(w, entry);
  w.end(']');
  w.key("values").begin('[');
  for (const ExplainValue& v : e.values()) write_value(w, v);
  w.end(']');
}

}  // namespace compiler::explain

std::string Explanation::to_json() const {
  compiler::explain::JsonWriter w;
  w.begin('{');
  compiler::explain::write_report(w, *this);
  w.end('}');
  return w.take();
}

}  // namespace tessera
