// SPDX-License-Identifier: Apache-2.0
// What the examples share towards the user: flags, a progress bar, a plot and checks.
#pragma once

#include <tessera/mesh.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace terminal {

/// Flags of the form `--name value`; `--help` prints them. A flag that isn't known ends the
/// program.
class Flags {
 public:
  /// @param about  What the program does, for --help.
  /// @param flags  Names without dashes, with their defaults.
  Flags(int argc, char** argv, const std::string& about, std::map<std::string, std::string> flags)
      : values_(std::move(flags)) {
    for (int i = 1; i < argc; i += 2) {
      const std::string word = argv[i];
      const auto flag = word.rfind("--", 0) == 0 ? values_.find(word.substr(2)) : values_.end();
      if (flag != values_.end() && i + 1 < argc) {
        flag->second = argv[i + 1];
        continue;
      }
      if (word != "--help") {
        std::cerr << (flag == values_.end() ? "unknown flag " : "no value for ") << word << "\n";
      }
      std::cerr << about << "\nflags:";
      for (const auto& [name, value] : values_) std::cerr << " [--" << name << " " << value << "]";
      std::cerr << "\n";
      std::exit(word == "--help" ? 0 : 2);
    }
  }

  const std::string& text(const std::string& name) const { return values_.at(name); }
  /// A whole number that isn't negative.
  int number(const std::string& name) const {
    const std::string& value = text(name);
    char* end = nullptr;
    const long n = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || n < 0 || n > 1'000'000'000) {
      fail(name, "a number from 0");
    }
    return int(n);
  }
  /// A mesh, as "data=2,model=4".
  tessera::Mesh mesh(const std::string& name) const {
    tessera::Mesh::Shape shape;
    std::istringstream axes(text(name));
    for (std::string axis; std::getline(axes, axis, ',');) {
      const std::size_t equals = axis.find('=');
      const int size = equals == std::string::npos ? 0 : std::atoi(axis.c_str() + equals + 1);
      if (size < 1) fail(name, "axes and sizes, as data=2,model=4");
      shape.push_back({axis.substr(0, equals), size});
    }
    return tessera::make_mesh(shape);
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& wanted) const {
    std::cerr << "--" << name << " takes " << wanted << ", not '" << text(name) << "'\n";
    std::exit(2);
  }
  std::map<std::string, std::string> values_;
};

/// A bar on standard error, if that is a terminal.
inline void progress(int done, int total, const std::string& note) {
  if (!isatty(2) || total == 0) return;
  const int width = 40, filled = width * done / total;
  std::fprintf(stderr, "\r[%s%s] %3d %%  %s ", std::string(std::size_t(filled), '#').c_str(),
               std::string(std::size_t(width - filled), '.').c_str(), 100 * done / total,
               note.c_str());
  if (done == total) std::fprintf(stderr, "\n");
}

/// A plot of a series in `rows` lines; each column is a mean over its part of the series.
inline void plot(const std::string& title, const std::vector<float>& values, int rows = 8,
                 int columns = 60) {
  if (values.empty()) return;
  const int n = int(values.size());
  columns = std::min(columns, n);
  std::vector<float> means;
  for (int c = 0; c < columns; ++c) {
    const int from = n * c / columns, to = n * (c + 1) / columns;
    float sum = 0;
    for (int i = from; i < to; ++i) sum += values[std::size_t(i)];
    means.push_back(sum / float(to - from));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  const float span = std::max(*high - *low, 1e-12f);
  std::printf("%s\n", title.c_str());
  for (int r = 0; r < rows; ++r) {
    std::printf("%10.4g |", double(*high - span * float(r) / float(std::max(rows - 1, 1))));
    for (float m : means) {
      std::putchar(int(std::lround((*high - m) / span * float(rows - 1))) == r ? '*' : ' ');
    }
    std::putchar('\n');
  }
  std::printf("%10s +%s\n", "", std::string(std::size_t(columns), '-').c_str());
}

/// Statements that a program checks about its own results.
class Checks {
 public:
  /// Prints the statement, and whether it holds.
  void expect(bool holds, const std::string& statement) {
    std::printf("%s %s\n", holds ? "ok:    " : "WRONG: ", statement.c_str());
    failed_ = failed_ || !holds;
  }
  /// The same for a figure that must be below a limit.
  void below(double figure, double limit, const std::string& what) {
    char text[64];
    std::snprintf(text, sizeof text, ": %.3g (must be below %.3g)", figure, limit);
    expect(figure < limit, what + text);
  }
  /// For main to return.
  int exit_code() const { return failed_ ? 1 : 0; }

 private:
  bool failed_ = false;
};

/// The largest difference between two series.
inline float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  float out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float d = std::abs(a[i] - b[i]);
    if (!(d <= out)) out = d;  // a NaN counts
  }
  return out;
}

}  // namespace terminal
