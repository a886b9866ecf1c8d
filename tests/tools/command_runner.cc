// SPDX-License-Identifier: Apache-2.0
// Runs the tessera command and captures its output.
#include "tests/tools/command_runner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>

namespace tessera::testing {

namespace fs = std::filesystem;

Json Ran::json() const {
  const Json parsed = Json::parse(out, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded())
      << "exit code " << code << ", stdout: " << out << "\nstderr: " << err;
  return parsed;
}

Ran run_tool(const std::vector<std::string>& arguments, const std::string& input) {
  const TemporaryFolder folder;
  const std::string in = folder / "in", out = folder / "out", err = folder / "err";
  write_file(in, input);
  std::vector<std::string> words{TESSERA_TOOL};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int files[] = {open(in.c_str(), O_RDONLY), open(out.c_str(), O_CREAT | O_WRONLY, 0600),
                         open(err.c_str(), O_CREAT | O_WRONLY, 0600)};
    for (int i = 0; i < 3; ++i) dup2(files[i], i);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage used{};
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  Ran ran;
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  ran.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  ran.megabytes = double(used.ru_maxrss) / 1024;
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = read_file(out);
  ran.err = read_file(err);
  return ran;
}

fs::path source_dir() { return TESSERA_SOURCE_DIR; }
fs::path corpus_dir() { return source_dir() / "tests/corpus"; }

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count{0};
  path_ = fs::temp_directory_path() /
          ("tessera_tool_test_" + std::to_string(getpid()) + "_" + std::to_string(++count));
  fs::create_directories(path_);
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  EXPECT_TRUE(file.good()) << path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace tessera::testing
