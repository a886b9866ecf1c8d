// SPDX-License-Identifier: Apache-2.0
// Parses and prints the description of a network: bandwidth and latency per mesh axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <tessera/network.h>

#include "src/base/contains.h"
#include "src/base/files/plain_numbers.h"

namespace tessera {
namespace {

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

[[noreturn]] void refuse(const std::string& item, const std::string& what, Location location) {
  throw ValueError(
      "network '" + item + "': " + what +
          "; items are as data=50GB/s:1us, *=100GB/s, start=5us, flops=200T, memory=1.5TB/s",
      location);
}

/// A positive number with one of the units behind it.
double quantity(const std::string& text, const std::vector<std::pair<const char*, double>>& units,
                bool zero_allowed, const std::string& item, const char* what, Location location) {
  const char* begin = text.c_str();
  char* end = nullptr;
  const double value = read_double(begin, &end);
  const std::string unit = trimmed(end);
  const bool positive = std::isfinite(value) && (value > 0 || (zero_allowed && value == 0));
  for (const auto& [name, factor] : units) {
    if (end != begin && positive && unit == name) return value * factor;
  }
  std::string valid;
  for (const auto& [name, factor] : units) {
    (void)factor;
    if (*name != 0) valid += (valid.empty() ? "" : ", ") + std::string(name);
  }
  refuse(item,
         "expected a positive " + std::string(what) + " with a unit (" + valid + "), got '" + text +
             "'",
         location);
}

double duration(const std::string& text, const std::string& item, const char* what,
                Location location) {
  return quantity(text, {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}}, true,
                  item, what, location);
}

double bandwidth(const std::string& text, const std::string& item, Location location) {
  return quantity(
      text,
      {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"PB/s", 1e15}},
      false, item, "bandwidth", location);
}

std::string bandwidth_text(double b) { return fmt::format("{:.12g}GB/s", b / 1e9); }
std::string link_text(const Network::Link& link) {
  return bandwidth_text(link.bytes_per_second) +
         fmt::format(":{:.12g}us", link.latency_seconds * 1e6);
}

}  // namespace

Network Network::parse(const std::string& text, Location location) {
  Network out;
  std::string rest = text;
  std::replace(rest.begin(), rest.end(), ',', '\n');
  std::vector<std::string> met;
  for (std::size_t at = 0; at <= rest.size();) {
    const std::size_t end = std::min(rest.find('\n', at), rest.size());
    std::string item = rest.substr(at, end - at);
    at = end + 1;
    // A remark runs to the end of its line, over commas too.
    if (const auto remark = item.find('#'); remark != std::string::npos) {
      const std::size_t line_end = std::min(text.find('\n', at - 1), text.size());
      item.resize(remark);
      at = line_end + 1;
    }
    item = trimmed(item);
    if (item.empty()) continue;
    const std::size_t equals = item.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      refuse(item, "expected name=value", location);
    }
    const std::string name = trimmed(item.substr(0, equals));
    const std::string value = trimmed(item.substr(equals + 1));
    if (contains(met, name)) {
      refuse(item, "'" + name + "' stands twice", location);
    }
    met.push_back(name);
    if (name == "flops") {
      out.flops_per_second = quantity(value,
                                      {{"", 1},
                                       {"G", 1e9},
                                       {"T", 1e12},
                                       {"P", 1e15},
                                       {"G/s", 1e9},
                                       {"T/s", 1e12},
                                       {"P/s", 1e15}},
                                      false, item, "number of operations in a second", location);
      continue;
    }
    if (name == "start") {
      out.start_seconds = duration(value, item, "time", location);
      continue;
    }
    if (name == "memory") {
      out.memory_bytes_per_second = bandwidth(value, item, location);
      continue;
    }
    Link link;
    const std::size_t colon = value.find(':');
    link.bytes_per_second = bandwidth(trimmed(value.substr(0, colon)), item, location);
    if (colon != std::string::npos) {
      link.latency_seconds = duration(trimmed(value.substr(colon + 1)), item, "latency", location);
    }
    (name == "*" ? out.other : out.axes[name]) = link;
  }
  return out;
}

const Network::Link& Network::link(const std::string& axis) const {
  const auto it = axes.find(axis);
  return it == axes.end() ? other : it->second;
}

std::string Network::to_string() const {
  std::string out;
  for (const auto& [name, link] : axes) out += name + "=" + link_text(link) + ", ";
  out += "*=" + link_text(other);
  if (start_seconds > 0) out += fmt::format(", start={:.12g}us", start_seconds * 1e6);
  return out + fmt::format(", flops={:.12g}T, memory=", flops_per_second / 1e12) +
         bandwidth_text(memory_bytes_per_second);
}

}  // namespace tessera
