// SPDX-License-Identifier: Apache-2.0
// The texts, and the C compiler that makes an object of them.
#include "tools/tessera/c_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>

#include "src/base/arrays/dtype_names.h"
#include "src/base/files/file_io.h"
#include "src/compiler/c_program.h"
#include "tools/tessera/command.h"

extern char** environ;

namespace tessera::tool {
namespace {

constexpr const char* kWords[] = {
    "auto",     "break",    "case",    "char",   "const",    "continue", "default", "do",
    "double",   "else",     "enum",    "extern", "float",    "for",      "goto",    "if",
    "inline",   "int",      "long",    "main",   "register", "restrict", "return",  "short",
    "signed",   "sizeof",   "static",  "struct", "switch",   "typedef",  "union",   "unsigned",
    "void",     "volatile", "while",   "class",  "new",      "delete",   "this",    "template",
    "operator", "public",   "private", "bool",   "true",     "false",    "and",     "or",
    "not",      "xor",      "context"};

bool is_word(std::string_view name) {
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_part(char c) { return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string upper(std::string name) {
  for (char& c : name) c = char(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

struct CType {
  const char* name;
  const char* says;  ///< in the comment, where the name doesn't; may be empty
};

CType c_type(DType type) {
  switch (type) {
    case DType::pred:
      return {"uint8_t", "0 or 1"};
    case DType::s1:
    case DType::s2:
    case DType::s4:
      return {"int8_t", "one number a byte"};
    case DType::s8:
      return {"int8_t", ""};
    case DType::s16:
      return {"int16_t", ""};
    case DType::s32:
      return {"int32_t", ""};
    case DType::s64:
      return {"int64_t", ""};
    case DType::u1:
    case DType::u2:
    case DType::u4:
      return {"uint8_t", "one number a byte"};
    case DType::u8:
      return {"uint8_t", ""};
    case DType::u16:
      return {"uint16_t", ""};
    case DType::u32:
      return {"uint32_t", ""};
    case DType::u64:
      return {"uint64_t", ""};
    case DType::f16:
    case DType::bf16:
      return {"uint16_t", "the bits of each number"};
    case DType::f32:
      return {"float", ""};
    case DType::f64:
      return {"double", ""};
    case DType::c64:
      return {"float", "real and imaginary parts, one after the other"};
    case DType::c128:
      return {"double", "real and imaginary parts, one after the other"};
    default:
      return {"uint8_t", "the bits of each number, one a byte"};
  }
}

/// Texts of the module in a comment.
std::string commented(std::string text) {
  for (std::size_t at; (at = text.find("*/")) != std::string::npos;) text.replace(at, 2, "* /");
  for (std::size_t at; (at = text.find("/*")) != std::string::npos;) text.replace(at, 2, "/ *");
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

std::string described(const CArray& a) {
  const char* says = c_type(a.shape.dtype).says;
  return fmt::format(" *   {}: {}{}{}{}\n", a.name, a.shape.to_string(), *says == '\0' ? "" : ", ",
                     says, a.is.empty() || a.is == a.name ? "" : "; " + commented(a.is));
}

std::string parameters_of(const CInterface& f) {
  std::string out = fmt::format("{}_context* context", f.function);
  for (const CArray& a : f.arguments) {
    out += fmt::format(", const {}* {}", c_type(a.shape.dtype).name, a.name);
  }
  for (const CArray& a : f.results) {
    out += fmt::format(", {}* {}", c_type(a.shape.dtype).name, a.name);
  }
  return out;
}

std::string macros_of(const std::string& prefix, const CArray& a) {
  const std::string name = prefix + "_" + upper(a.name);
  std::string out = fmt::format("#define {}_RANK {}\n", name, a.shape.rank());
  for (std::int64_t d = 0; d < a.shape.rank(); ++d) {
    out += fmt::format("#define {}_DIM{} {}\n", name, d, a.shape.dim(d));
  }
  out += fmt::format("#define {}_SIZE {}\n", name, a.shape.element_count());
  out += fmt::format("#define {}_BYTES {}\n", name, a.shape.byte_count());
  return out;
}

std::string prototype(const CInterface& f, const std::string& suffix, const std::string& type,
                      const std::string& parameters) {
  return type + " " + f.function + suffix + "(" + parameters + ")";
}

}  // namespace

std::string c_function_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const bool fits = !name.empty() && is_letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), is_part) && !is_word(name);
  if (fits) return name;
  throw UsageError("--c makes a function of the last part of -o, and '" + name +
                   "' is no name of one; valid: letters, digits and _, as in -o out/step, for "
                   "out/step.h and out/libstep.so");
}

std::string c_identifier(const std::string& text, const std::string& other,
                         const std::vector<CArray>& taken) {
  std::string name;
  for (const char c : text) {
    if (is_part(c)) {
      name += c;
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  const auto is_taken = [&](const std::string& n) {
    return std::any_of(taken.begin(), taken.end(),
                       [&](const CArray& a) { return upper(a.name) == upper(n); });
  };
  constexpr std::size_t kLongest = 40;
  if (!name.empty() && is_letter(name[0]) && name[0] != '_' && name.size() <= kLongest &&
      !is_word(name) && !is_taken(name)) {
    return name;
  }
  name = other;
  while (is_taken(name)) name += "_";
  return name;
}

std::string c_header(const CInterface& f) {
  const std::string prefix = upper(f.function);
  std::string out = fmt::format(
      "/* Made by tessera compile --c of '{}', for {}. Don't edit.\n"
      " *\n"
      " * Arrays are dense and in row-major order: the last dim is the one whose neighbours are\n"
      " * neighbours in memory.\n",
      commented(f.module), f.cpu);
  if (!f.arguments.empty()) out += " *\n * Arguments:\n";
  for (const CArray& a : f.arguments) out += described(a);
  if (!f.results.empty()) out += " *\n * Results:\n";
  for (const CArray& a : f.results) out += described(a);
  out += fmt::format(
      " *\n"
      " * {0}_init takes all memory. {0} takes none, no lock of its own, and starts no thread: it "
      "runs\n"
      " * on the thread that calls it. A context is for one thread at a time; threads that run at\n"
      " * the same time have one each, all made before the first call that may take no memory. */\n"
      "#ifndef TESSERA_C_{1}_H\n#define TESSERA_C_{1}_H\n\n"
      "#include <stddef.h>\n#include <stdint.h>\n\n",
      f.function, prefix);
  out += fmt::format("#define {0}_ARGUMENTS {1}\n#define {0}_RESULTS {2}\n", prefix,
                     f.arguments.size(), f.results.size());
  for (const CArray& a : f.arguments) out += macros_of(prefix, a);
  for (const CArray& a : f.results) out += macros_of(prefix, a);
  out += fmt::format(
      "/* Pointers that are aligned to this are read where they are; others are copied first. */\n"
      "#define {0}_ALIGNMENT 64\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n"
      "enum {{\n"
      "  {0}_OK = 0,\n"
      "  {0}_NO_MEMORY = 1,    /* init: there is no memory */\n"
      "  {0}_NOT_HERE = 2,     /* init: made for another processor, or another build of Tessera "
      "*/\n"
      "  {0}_BAD_ARGUMENT = 3, /* a null pointer */\n"
      "  {0}_FAILED = 4        /* something else: see the message */\n"
      "}};\n\n"
      "typedef struct {1}_context {1}_context;\n\n",
      prefix, f.function);
  out += fmt::format(
      "/* Loads the program and takes its memory. If it fails, *context is a null pointer. */\n"
      "{};\n"
      "/* Runs it. Results are written when all is computed. A result may have an argument's\n"
      " * memory, but not another result's. */\n"
      "{};\n",
      prototype(f, "_init", "int", f.function + "_context** context"),
      prototype(f, "", "int", parameters_of(f)));
  out += fmt::format(
      "/* Another thread than that of {0}_init calls this before its first call that may take no\n"
      " * memory. */\n"
      "{1};\n"
      "/* Why the last call failed; of {0}_init, if context is a null pointer, that of this "
      "thread. */\n"
      "{2};\n"
      "/* Memory of the context, in bytes. */\n"
      "{3};\n"
      "/* How often calls asked for memory after all: 0. */\n"
      "{4};\n"
      "/* Frees it; a null pointer is fine. */\n"
      "{5};\n\n"
      "#ifdef __cplusplus\n}}\n#endif\n#endif\n",
      f.function, prototype(f, "_prepare_thread", "int", f.function + "_context* context"),
      prototype(f, "_message", "const char*", "const " + f.function + "_context* context"),
      prototype(f, "_bytes", "int64_t", "const " + f.function + "_context* context"),
      prototype(f, "_late_allocations", "int64_t", "const " + f.function + "_context* context"),
      prototype(f, "_free", "void", f.function + "_context* context"));
  return out;
}

std::string c_source(const CInterface& f, const std::string& program) {
  const std::string context = f.function + "_context";
  const auto pointers = [](const std::vector<CArray>& arrays) {
    std::string out;
    for (const CArray& a : arrays) out += (out.empty() ? "" : ", ") + a.name;
    return out.empty() ? std::string("0") : out;
  };
  std::string out = fmt::format(
      "#include \"{0}.h\"\n"
      "#define SEEN __attribute__((visibility(\"default\")))\n"
      "extern int tessera_c_open(const void*, size_t, void**, char*, size_t);\n"
      "extern int tessera_c_run(void*, const void* const*, void* const*);\n"
      "extern int tessera_c_prepare_thread(void*);\n"
      "extern const char* tessera_c_message(const void*);\n"
      "extern int64_t tessera_c_bytes(const void*);\n"
      "extern int64_t tessera_c_late_allocations(const void*);\n"
      "extern void tessera_c_close(void*);\n"
      "__asm__(\".section .rodata\\n.balign 64\\n\"\n"
      "        \"{0}_stored: .incbin \\\"{1}\\\"\\n{0}_stored_end:\\n\"\n"
      "        \".previous\\n\");\n"
      "extern const char {0}_stored[] __attribute__((visibility(\"hidden\")));\n"
      "extern const char {0}_stored_end[] __attribute__((visibility(\"hidden\")));\n"
      "static __thread char why[512];\n",
      f.function, program);
  out += fmt::format(
      "SEEN {0} {{\n"
      "  void* program = 0;\n"
      "  int status;\n"
      "  if (context == 0) return 3;\n"
      "  status = tessera_c_open({1}_stored, (size_t)({1}_stored_end - {1}_stored), &program, "
      "why,\n"
      "                          sizeof why);\n"
      "  *context = ({1}_context*)program;\n"
      "  return status;\n"
      "}}\n",
      prototype(f, "_init", "int", context + "** context"), f.function);
  out += fmt::format(
      "SEEN {} {{\n"
      "  const void* const arguments[] = {{{}}};\n"
      "  void* const results[] = {{{}}};\n"
      "  if (context == 0) return 3;\n"
      "  return tessera_c_run(context, arguments, results);\n"
      "}}\n",
      prototype(f, "", "int", parameters_of(f)), pointers(f.arguments), pointers(f.results));
  const auto forward = [&](const char* suffix, const char* type, const char* constant,
                           const std::string& body) {
    out += fmt::format("SEEN {} {{ {} }}\n",
                       prototype(f, suffix, type, constant + context + "* context"), body);
  };
  forward("_prepare_thread", "int", "",
          "return context == 0 ? 3 : tessera_c_prepare_thread(context);");
  forward("_message", "const char*", "const ",
          "return context == 0 ? why : tessera_c_message(context);");
  forward("_bytes", "int64_t", "const ", "return context == 0 ? 0 : tessera_c_bytes(context);");
  forward("_late_allocations", "int64_t", "const ",
          "return context == 0 ? 0 : tessera_c_late_allocations(context);");
  forward("_free", "void", "", "if (context != 0) tessera_c_close(context);");
  return out;
}

namespace {

/// A folder of its own for as long as it lives.
class WorkFolder {
 public:
  WorkFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-c-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw IoError("can't make a folder like " + pattern + ": " + std::strerror(errno));
    }
    path_ = pattern;
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void run_compiler(const std::vector<std::string>& words, const std::string& said) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  const std::string valid = "; valid: a C compiler named by the variable CC, or cc (Debian: gcc)";
  if (error != 0) {
    throw IoError("can't run the C compiler '" + words[0] + "': " + std::strerror(error) + valid);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw IoError("can't run the C compiler '" + words[0] + "'" + valid);
  }
  throw IoError("the C compiler '" + words[0] + "' failed:\n" + read_text(said));
}

/// Where the loader looks without being told.
bool is_searched(const std::string& folder) {
  for (const char* known : {"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib",
                            "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"}) {
    if (folder == known) return true;
  }
  return false;
}

}  // namespace

void make_c_object(const CInterface& f, const std::string& stored, const std::string& object) {
  const std::string library = compiler::library_of_c_programs();
  if (library.empty()) {
    throw NotImplementedError(
        "--c makes objects that use libtessera.so, and this command was built without it; valid: "
        "a build with BUILD_SHARED_LIBS=ON");
  }
  const WorkFolder work;
  write_text(work / "program", stored);
  write_text(work / (f.function + ".h"), c_header(f));
  write_text(work / "function.c", c_source(f, work / "program"));
  std::vector<std::string> words;
  const char* const given = std::getenv("CC");  // NOLINT(concurrency-mt-unsafe): one thread
  std::istringstream compiler(given == nullptr || *given == '\0' ? "cc" : given);
  for (std::string word; compiler >> word;) words.push_back(word);
  const std::string folder = std::filesystem::path(library).parent_path().string();
  for (const std::string& word :
       {std::string("-std=gnu11"), std::string("-O2"), std::string("-fPIC"),
        std::string("-fvisibility=hidden"), std::string("-shared"),
        "-Wl,-soname," + std::filesystem::path(object).filename().string(),
        std::string("-Wl,--no-undefined"), std::string("-Wl,-z,now"), std::string("-o"),
        work / "object", work / "function.c", library}) {
    words.push_back(word);
  }
  if (!is_searched(folder)) words.push_back("-Wl,-rpath," + folder);
  run_compiler(words, work / "said");
  ReplacedFile file(object);
  file.write(read_text(work / "object"));
  file.commit();
}

}  // namespace tessera::tool
