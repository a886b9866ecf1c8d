// SPDX-License-Identifier: Apache-2.0
// Reads the table of errors once; a listener of the test program checks rows as tests end.
#include "tests/support/error_table.h"

#include <cxxabi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

namespace tessera::testing {
namespace {

std::string class_of(const Error& error) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status), std::free);
  std::string text = status == 0 ? name.get() : typeid(error).name();
  return text.substr(text.rfind(':') + 1);
}

/// The text as it stands in the table: on one line, with one name and number for the lines of
/// tests.
std::string written(const Error& error) {
  static const std::regex lines("[^ \n\"'(]*_test\\.cc:[0-9]+");
  const std::string text = std::regex_replace(std::string(error.what()), lines, "program.cc:12");
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\\') {
      out += "\\\\";
    } else {
      out += c;
    }
  }
  return out;
}

/// "Suite.Test" of the running test, or "" if it isn't one of a behaviour.
std::string running_test() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  if (info == nullptr) return "";
  const std::string name = info->name();
  static const std::regex numbered("^Behaviour_[0-9]{3}_.*");
  if (!std::regex_match(name, numbered)) return "";
  return std::string(info->test_suite_name()) + "." + name;
}

class Table : public ::testing::EmptyTestEventListener {
 public:
  Table() {
    std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/errors/errors.txt");
    for (std::string line; std::getline(file, line);) {
      // number, test, class, message
      const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
      if (line.starts_with('#') || second == std::string::npos) continue;
      rows_[line.substr(first + 1, second - first - 1)].insert(line.substr(second + 1));
    }
  }

  void note(const std::string& test, const std::string& message) {
    const std::string row = as_on_cpu(message);
    const std::lock_guard lock(mutex_);
    if (const char* record = std::getenv("ERRORS_RECORD")) {
      if (!met_.insert(row).second) return;
      std::ofstream(record, std::ios::app) << test << '\t' << row << '\n';
      return;
    }
    met_.insert(row);
    const auto rows = rows_.find(test);
    if (rows != rows_.end() && rows->second.contains(row)) return;
    ADD_FAILURE() << "tests/errors/errors.txt lacks this error of " << test
                  << " (scripts/errors --record writes it anew):\n  " << row;
  }

  void OnTestStart(const ::testing::TestInfo&) override { met_.clear(); }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const auto rows = rows_.find(std::string(info.test_suite_name()) + "." + info.name());
    if (rows == rows_.end() || std::getenv("ERRORS_RECORD") || !info.result()->Passed()) return;
    for (const std::string& row : rows->second) {
      EXPECT_TRUE(met_.contains(row)) << "an error of tests/errors/errors.txt that " << rows->first
                                      << " doesn't meet any more:\n  " << row;
    }
  }

 private:
  /// Devices of another platform, if the tests run on one, by the names of virtual ones.
  static std::string as_on_cpu(std::string message) {
    const char* platform = std::getenv("TESSERA_PLATFORM");
    if (platform == nullptr || *platform == 0) return message;
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {std::string(platform) + ":", "cpu:"}, {"on " + std::string(platform), "on cpu"}}) {
      for (std::size_t at = 0; (at = message.find(from, at)) != std::string::npos;
           at += to.size()) {
        message.replace(at, from.size(), to);
      }
    }
    return message;
  }

  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> rows_;
  std::set<std::string> met_;
};

Table& table() {
  // The test program owns and destroys it.
  static Table* const made = [] {
    auto* const t = new Table;
    ::testing::UnitTest::GetInstance()->listeners().Append(t);
    return t;
  }();
  return *made;
}
[[maybe_unused]] const Table& kListens = table();

}  // namespace

void note_error(const Error& error) {
  const std::string test = running_test();
  if (!test.empty()) table().note(test, class_of(error) + '\t' + written(error));
}

}  // namespace tessera::testing
