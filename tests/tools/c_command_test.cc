// SPDX-License-Identifier: Apache-2.0
// tessera compile --c: functions of C give the bits of tessera run, and ask the system for nothing
// once they are initialised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/frontend/checkpoint/folder_test.h"
#include "tests/support/with_variable.h"
#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

class CCommand : public FolderTest {
 protected:
  /// The macros with the sizes in bytes, of arguments and then results: the header has them in
  /// order.
  std::vector<std::string> sizes_in(const std::string& f) {
    const std::string header = contents(path(f + ".h"));
    std::vector<std::string> out;
    for (std::size_t at = 0; (at = header.find("_BYTES ", at)) != std::string::npos; ++at) {
      const std::size_t begin = header.rfind(' ', at) + 1;
      out.push_back(header.substr(begin, at + 6 - begin));
    }
    return out;
  }

  /// A program of C that reads arguments, calls the function three times, and writes results.
  std::string driver(const std::string& f, const Json& made) {
    std::string upper = f;
    for (char& c : upper) c = char(std::toupper(c));
    const auto arguments = made["arguments"].get<std::size_t>();
    const auto results = made["results"].get<std::size_t>();
    std::string sizes, reads, writes;
    const std::vector<std::string> macros = sizes_in(f);
    EXPECT_EQ(macros.size(), arguments + results);
    if (macros.size() != arguments + results) return {};
    std::string call;
    for (std::size_t i = 0; i < macros.size(); ++i) {
      const bool in = i < arguments;
      const std::string number = std::to_string(in ? i : i - arguments);
      reads += "  a[" + std::to_string(i) + "] = room(" + macros[i] + ");\n";
      if (in) reads += "  take(\"arg" + number + ".npy\", a[" + number + "], " + macros[i] + ");\n";
      if (!in) {
        writes += "  put(\"result" + number + "\", a[" + std::to_string(i) + "] + shift, " +
                  macros[i] + ");\n";
      }
      call += ", (void*)(a[" + std::to_string(i) + "] + shift)";
      if (in) {
        sizes += "  memmove(a[" + number + "] + 16, a[" + number + "], " + macros[i] + ");\n";
      }
    }
    return "#include \"" + f + ".h\"\n" + R"(
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
extern _Thread_local long counted_requests;
static const char* from;
static char* room(size_t bytes) { return aligned_alloc(64, (bytes + 16 + 63) / 64 * 64); }
static void take(const char* name, char* to, size_t bytes) {
  char path[1000];
  unsigned char head[10];
  FILE* file;
  snprintf(path, sizeof path, "%s/%s", from, name);
  file = fopen(path, "rb");
  if (!file || fread(head, 1, 10, file) != 10) exit(9);
  fseek(file, 10 + head[8] + 256 * head[9], SEEK_SET);
  if (fread(to, 1, bytes, file) != bytes) exit(8);
  fclose(file);
}
static void put(const char* name, const char* data, size_t bytes) {
  FILE* file = fopen(name, "wb");
  if (fwrite(data, 1, bytes, file) != bytes) exit(7);
  fclose(file);
}
int main(int argc, char** argv) {
)" + "  char* a[" +
           std::to_string(std::max<std::size_t>(macros.size(), 1)) + "];\n  " + f +
           "_context* context = 0;\n" + R"(
  long before, asked;
  size_t shift = 0;
  int status, k;
  (void)argc;
  from = argv[1];
)" + reads +
           "  status = " + f + "_init(&context);\n  if (status != " + upper +
           "_OK) { fprintf(stderr, \"%d: %s\\n\", status, " + f + "_message(0)); return 1; }\n" +
           "  before = counted_requests;\n  for (k = 0; k < 3; ++k) {\n" + "    if (k == 2) {\n" +
           sizes + "      shift = 16;\n    }\n" + "    status = " + f + "(context" + call +
           ");\n    if (status != 0) { fprintf(stderr, \"%d: %s\\n\", status, " + f +
           "_message(context)); return 2; }\n  }\n" + "  asked = counted_requests - before;\n" +
           "  fprintf(stderr, \"%ld requests, %ld late, %ld bytes\\n\", asked, (long)" + f +
           "_late_allocations(context), (long)" + f + "_bytes(context));\n" + writes + "  " + f +
           "_free(context);\n  return asked == 0 && argc == 2 ? 0 : 3;\n}\n";
  }

  int shell(const std::string& command) {
    return std::system(("cd '" + folder_.string() + "' && " + command + " >said 2>&1").c_str());
  }

  /// Empty, or why `tessera compile --c` refuses it.
  std::string check(const fs::path& file) {
    const std::string folder = file.parent_path().string();
    const Ran made = run_tool({"compile", "--c", file.string(), "-o", path("f"), "--json"});
    if (made.code != 0) {
      EXPECT_EQ(made.code, 1) << made.err;
      return made.err;
    }
    write(path("main.c"), driver("f", made.json()));
    EXPECT_EQ(shell("cc -std=c11 -pedantic -Wall -Wextra -Werror -O0 -c main.c"), 0)
        << contents(path("said"));
    const std::string counted = (source_dir() / "tests/tools/c_program/counted_memory.c").string();
    EXPECT_EQ(shell("cc -std=gnu11 -O1 main.o '" + counted + "' -L. -lf -Wl,-rpath,. -o main"), 0)
        << contents(path("said"));
    EXPECT_EQ(shell("TESSERA_VERIFY=0 ./main '" + folder + "'"), 0) << contents(path("said"));
    const Ran ran =
        run_tool({"run", file.string(), "--inputs", folder, "--output-dir", path("out")});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const auto results = made.json()["results"].get<std::size_t>();
    for (std::size_t i = 0; i < results; ++i) {
      const std::string npy = contents(path("out/out" + std::to_string(i) + ".npy"));
      const std::string bits = contents(path("result" + std::to_string(i)));
      EXPECT_GT(npy.size(), bits.size());
      EXPECT_TRUE(npy.ends_with(bits)) << "result " << i << " has other bits";
    }
    return {};
  }
};

TEST_F(CCommand, ProgramsOfTheCorpus) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "memory is the sanitizer's, and can't be counted";
#endif
  // All of them: TESSERA_C_PROGRAMS=all.
  const char* which = std::getenv("TESSERA_C_PROGRAMS");
  const bool all = which != nullptr && std::string(which) == "all";
  const std::vector<std::string> some = {"mlp_train_step",    "transformer_block", "conv2d_same",
                                         "sort_argsort_topk", "fft_batch",         "rnn_scan",
                                         "cond_switch",       "while_newton"};
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(corpus_dir())) {
    const std::string name = entry.path().filename().string();
    const fs::path file = entry.path() / "plain.mlir";
    if (!fs::exists(file) || (!all && std::find(some.begin(), some.end(), name) == some.end())) {
      continue;
    }
    SCOPED_TRACE(name);
    const std::string refused = check(file);
    if (all && !refused.empty()) std::printf("%s: %s", name.c_str(), refused.c_str());
    EXPECT_TRUE(all || refused.empty()) << refused;
    ++checked;
  }
  EXPECT_GE(checked, 8);
}

/// Seven threads at a time, with a context each. All are there before the first one runs:
/// OpenBLAS's buffers are taken by g_init, and meanwhile are nobody else's.
TEST_F(CCommand, ThreadsWithContexts) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "memory is the sanitizer's, and can't be counted";
#endif
  const std::string module = (corpus_dir() / "transformer_block_grad/plain.mlir").string();
  const Ran made = run_tool({"compile", "--c", module, "-o", path("g"), "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::vector<std::string> macros = sizes_in("g");
  const std::string all = std::to_string(macros.size());
  std::string list, call;
  for (std::size_t i = 0; i < macros.size(); ++i) {
    list += macros[i] + ",";
    call += ", (void*)a[" + std::to_string(i) + "]";
  }
  write(path("main.c"), "#include \"g.h\"\n" + std::string(R"(
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
extern _Thread_local long counted_requests;
static const size_t sizes[] = {)") +
                            list + "};\nenum { ALL = " + all + R"( };
static float* first[ALL];
static pthread_barrier_t all_there;
static void* use(void* number) {
  float* a[ALL];
  g_context* context;
  long before;
  size_t i, k;
  if (g_init(&context) != G_OK) exit(2);
  for (i = 0; i < ALL; ++i) {
    a[i] = aligned_alloc(64, (sizes[i] + 63) / 64 * 64);
    for (k = 0; k < sizes[i] / 4; ++k) a[i][k] = (float)((k * 7919 + i) % 1000) / 1000 - 0.5f;
  }
  if (number != NULL) pthread_barrier_wait(&all_there);
  before = counted_requests;
  for (k = 0; k < 50; ++k) {
    if (g(context)" + call + R"() != G_OK) _exit(3);
  }
  if (counted_requests != before || g_late_allocations(context) != 0) _exit(4);
  for (i = G_ARGUMENTS; i < ALL; ++i) {
    if (number == NULL) first[i] = a[i];
    if (memcmp(first[i], a[i], sizes[i]) != 0) _exit(5);
  }
  g_free(context);
  return NULL;
}
int main(void) {
  pthread_t threads[7];
  int t;
  use(NULL);
  pthread_barrier_init(&all_there, NULL, 7);
  for (t = 0; t < 7; ++t) pthread_create(&threads[t], NULL, use, &threads[t]);
  for (t = 0; t < 7; ++t) pthread_join(threads[t], NULL);
  return 0;
}
)");
  const std::string counted = (source_dir() / "tests/tools/c_program/counted_memory.c").string();
  EXPECT_EQ(
      shell("cc -std=gnu11 -O1 -pthread main.c '" + counted + "' -L. -lg -Wl,-rpath,. -o main"), 0)
      << contents(path("said"));
  EXPECT_EQ(shell("./main"), 0);
}

TEST_F(CCommand, RefusesWhatCantKeepThePromise) {
  const auto error = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    write(path("m.hlo"), text);
    std::vector<std::string> words = {"compile", "--c", path("m.hlo"), "-o", path("f")};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  const std::string solver = (corpus_dir() / "linear_solve_spd/plain.mlir").string();
  const Ran call = run_tool({"compile", "--c", solver, "-o", path("f")});
  EXPECT_EQ(call.code, 1);
  EXPECT_NE(call.err.find("is a custom call of 'lapack_"), std::string::npos) << call.err;
  EXPECT_NE(call.err.find("plain.mlir:"), std::string::npos) << call.err;
  const std::string plain =
      "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)\n}\n";
  const Ran many = error(plain, {"--mesh", "x=2", "--in-shardings", "P(\"x\")"});
  EXPECT_EQ(many.code, 1);
  EXPECT_NE(many.err.find("for 2 devices"), std::string::npos) << many.err;
  write(path("m.hlo"), plain);
  for (const char* name : {"no-name", "7th", "while", ""}) {
    const Ran named = run_tool({"compile", "--c", path("m.hlo"), "-o", path(name)});
    EXPECT_EQ(named.code, 2) << name;
    EXPECT_NE(named.err.find("no name of one"), std::string::npos) << named.err;
  }
  const WithVariable compiler("CC", "no-such-compiler");
  const Ran none = error(plain);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("can't run the C compiler 'no-such-compiler'"), std::string::npos)
      << none.err;
}

/// The program of docs/ahead-of-time.md, as it stands there.
TEST_F(CCommand, CallsFromFortran) {
  if (std::system("command -v gfortran >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "there is no gfortran";
  }
  const std::string document = contents((source_dir() / "docs/ahead-of-time.md").string());
  const auto block = [&](const std::string& kind) {
    const std::size_t at = document.find("```" + kind + "\n");
    EXPECT_NE(at, std::string::npos) << kind;
    const std::size_t begin = at + kind.size() + 4;
    return document.substr(begin, document.find("```", begin) - begin);
  };
  write(path("scale.hlo"), block("hlo"));
  const Ran made = run_tool({"compile", "--c", path("scale.hlo"), "-o", path("scale")});
  ASSERT_EQ(made.code, 0) << made.err;
  write(path("main.f90"), block("fortran"));
  write(path("main.c"), block("c"));
  EXPECT_EQ(shell("gfortran main.f90 -L. -lscale -Wl,-rpath,. -o fortran"), 0)
      << contents(path("said"));
  EXPECT_EQ(shell("./fortran"), 0) << contents(path("said"));
  EXPECT_EQ(shell("cc -std=c11 -pedantic -Wall -Wextra -Werror main.c -L. -lscale -Wl,-rpath,. "
                  "-o plain_c"),
            0)
      << contents(path("said"));
  EXPECT_EQ(shell("./plain_c"), 0) << contents(path("said"));
}

}  // namespace
}  // namespace tessera::testing
