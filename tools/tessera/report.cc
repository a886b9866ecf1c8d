// SPDX-License-Identifier: Apache-2.0
// tessera report: what a report of a fault needs, in one file: versions, the processor, settings,
// and a program that shows it, made smaller.
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <tessera/device.h>
#include <tessera/processes.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <sstream>
#include <thread>

#include "src/base/machine_memory.h"
#include "tools/tessera/command.h"
#include "tools/tessera/reduce.h"

extern char** environ;

namespace tessera::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct ReportArguments {
  std::string module, output = "tessera-report.txt", command, shapes;
  double seconds = 60, timeout = 30;
};

// --- the machine ------------------------------------------------------------------------------

/// The value of the first line of a file that begins with `key`.
std::string line_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto at = line.find_first_not_of(" \t:=\"", key.size());
    if (at == std::string::npos) return "";
    line = line.substr(at);
    while (!line.empty() && (line.back() == '"' || line.back() == ' ')) line.pop_back();
    return line;
  }
  return "";
}

/// Those that decide which kernels are used.
std::string vector_features() {
  std::istringstream flags(line_of("/proc/cpuinfo", "flags"));
  std::string out;
  for (std::string flag; flags >> flag;) {
    for (const char* wanted : {"sse4_2", "avx", "f16c", "fma", "bmi2", "amx_"}) {
      if (flag.compare(0, std::strlen(wanted), wanted) != 0) continue;
      out += (out.empty() ? "" : " ") + flag;
      break;
    }
  }
  return out;
}

std::string about_machine() {
  std::ostringstream out;
  utsname system{};
  (void)uname(&system);
  out << "version: " << TESSERA_VERSION << "\n";
#ifdef __clang__
  out << "compiler: clang " << __clang_version__ << "\n";
#else
  out << "compiler: g++ " << __VERSION__ << "\n";
#endif
  out << "system: " << line_of("/etc/os-release", "PRETTY_NAME") << ", " << system.sysname << " "
      << system.release << ", glibc " << gnu_get_libc_version() << "\n";
  out << "processor: " << line_of("/proc/cpuinfo", "model name") << ", "
      << std::thread::hardware_concurrency() << " threads\n";
  out << "features: " << vector_features() << "\n";
  out << "memory: " << (machine_memory() >> 20) << " MB\n";
  std::vector<std::string> settings;
  for (char** e = environ; *e != nullptr; ++e) {
    for (const char* of : {"TESSERA_", "OPENBLAS_", "OMPI_MCA_"}) {
      if (std::strncmp(*e, of, std::strlen(of)) == 0) settings.emplace_back(*e);
    }
  }
  std::sort(settings.begin(), settings.end());
  for (const std::string& s : settings) out << "set: " << s << "\n";
  try {
    out << "devices: " << devices().size() << " of platform " << devices().front().platform << ", "
        << process_count() << " processes\n";
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    out << "devices: " << e.what() << "\n";
  }
  return out.str();
}

// --- the fault --------------------------------------------------------------------------------

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "tessera-report-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw IoError("can't make a folder in " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

struct Ended {
  int code = 0;  ///< of the process; 128 + signal if it was killed
  bool late = false;
  std::string said;  ///< on stderr
  bool failed() const { return late || code != 0; }
};

/// Runs a command, its output in a file, for so long.
Ended run_command(const std::vector<std::string>& words, const ScratchFolder& folder,
                  double seconds) {
  const std::string errors = folder.file("errors");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw IoError("can't run " + words[0] + ": " + std::strerror(error));
  Ended out;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      out.late = true;
      kill(child, SIGKILL);
      (void)waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  out.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  std::ifstream file(errors);
  std::ostringstream text;
  text << file.rdbuf();
  out.said = std::move(text).str();
  return out;
}

/// What two messages of one fault share: the first words, without places, names and numbers.
std::string kind_of(const std::string& said) {
  std::string line = said.substr(0, said.find('\n'));
  line = std::regex_replace(line, std::regex("^tessera: (a fault of [^:]*: )?"), "");
  line = std::regex_replace(line, std::regex("^[^ ]*:[0-9]+: "), "");
  line = std::regex_replace(line, std::regex("[A-Za-z_.-]*[0-9][^ ]*|'[^']*'"), "");
  std::string out;
  for (const char c : line) {
    if (out.size() < 48 && std::isalpha(static_cast<unsigned char>(c)) != 0) out += c;
  }
  return out;
}

/// Runs programs as `tessera run` does, or as the user's command says.
class Trial {
 public:
  explicit Trial(const ReportArguments& a) : a_(a) {}

  Ended operator()(const ir::Module& module, compiler::TextForm form) const {
    const std::string path = folder_.file("module");
    write_text(path, compiler::write_module(module, form));
    if (!a_.command.empty()) {
      // "$1" is the file.
      return run_command({"/bin/sh", "-c", a_.command, "sh", path}, folder_, a_.timeout);
    }
    const std::string self = fs::read_symlink("/proc/self/exe").string();
    return run_command({self, "run", path, "--seed", "0"}, folder_, a_.timeout);
  }
  /// Whether it is the fault that `first` was.
  bool same(const Ended& first, const Ended& now) const {
    if (!a_.command.empty()) return !now.late && now.code == 0;
    return now.failed() && now.late == first.late && now.code == first.code &&
           kind_of(now.said) == kind_of(first.said);
  }

 private:
  const ReportArguments& a_;
  ScratchFolder folder_;
};

std::string as_comments(const std::string& text) {
  std::ostringstream out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out << "// " << line << "\n";
  return out.str();
}

/// What is said of the module, and its text.
std::pair<std::string, std::string> about_module(const ReportArguments& a) {
  const LoadedModule loaded = load_module(a.module, arguments_of_flag(a.shapes));
  const Trial trial(a);
  const Ended first = trial(*loaded.module, loaded.form);
  std::ostringstream out;
  const std::string how = a.command.empty() ? "tessera run MODULE --seed 0" : a.command;
  out << "command: " << how << "\n";
  const bool shown = a.command.empty() ? first.failed() : trial.same(first, first);
  if (first.late) {
    out << "outcome: it hasn't ended after " << a.timeout << " s\n";
  } else {
    out << "outcome: exit code " << first.code << "\n";
  }
  std::istringstream said(first.said);
  std::string line;
  for (int i = 0; i < 20 && std::getline(said, line); ++i) out << "stderr: " << line << "\n";
  const std::size_t before = loaded.module->instruction_count();
  if (!shown) {
    std::cerr << "tessera: the program shows no fault with this command, and is reported as it is"
              << (a.command.empty() ? "; --if COMMAND says what does" : "") << "\n";
    out << "instructions: " << before << ", not reduced: no fault is shown\n";
    return {out.str(), compiler::write_module(*loaded.module, loaded.form)};
  }
  Progress progress;
  int tries = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(a.seconds);
  const auto small = reduced(
      *loaded.module,
      [&](const ir::Module& m) {
        progress.show("reducing: " + std::to_string(++tries) + " tries, " +
                      std::to_string(m.instruction_count()) + " instructions");
        return trial.same(first, trial(m, loaded.form));
      },
      [&] { return Clock::now() < end; });
  out << "instructions: " << before << ", reduced to " << small->instruction_count() << " in "
      << tries << " tries\n";
  return {out.str(), compiler::write_module(*small, loaded.form)};
}

int write_report(const ReportArguments& a) {
  if (!(a.seconds >= 0) || !(a.timeout > 0)) {
    throw UsageError("--seconds can't be negative, and --timeout must be positive");
  }
  std::string text = about_machine(), module;
  if (!a.module.empty()) {
    const auto [said, program] = about_module(a);
    text += said;
    module = program;
  }
  write_text(a.output, as_comments(text) + module);
  if (a.output != "-") {
    std::cerr << "tessera: " << a.output
              << " has what a report needs; look whether all of it may be seen by others\n";
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, std::function<int()>& run) {
  auto a = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Write what a report of a fault needs, with a program that shows it, reduced");
  command->add_option("module", a->module, "The program, if there is one; \"-\" is stdin");
  add_shapes_flag(command, &a->shapes);
  command->add_option("-o,--output", a->output, "Where to write it (default: tessera-report.txt)");
  command->add_option("--if", a->command,
                      "A command of the shell that succeeds if the program in \"$1\" shows the "
                      "fault (default: tessera run, which shows it by failing)");
  command->add_option("--seconds", a->seconds, "How long to reduce the program (default: 60)");
  command->add_option("--timeout", a->timeout,
                      "Seconds after which a program that runs counts as hanging (default: 30)");
  command->callback([&run, a] { run = [a] { return write_report(*a); }; });
}

}  // namespace tessera::tool
