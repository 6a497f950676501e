// Every spelling of "read a file" is refused; what only looks like one is not.
#include "compile/source_guard.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace warpsmith {
namespace {

TEST(SourceGuard, RefusesEverySpellingOfAFileRead) {
  const std::vector<std::string> hostile = {
      "#include \"/etc/passwd\"\n",
      "#include </etc/passwd>\n",
      "  \t#  include \"/etc/passwd\"\n",
      "int a;\n#inc\\\nlude \"/etc/passwd\"\n",
      "#inc\\\r\nlude \"/etc/passwd\"\r\n",
      "/* x */ # /* y */ include \"/etc/passwd\"\n",
      "/* x\n*/#include \"/etc/passwd\"\n",
      "%:include \"/etc/passwd\"\n",
      "#define F \"/etc/passwd\"\n#include F\n",
      "#include_next <stdio.h>\n",
      "#import \"/etc/passwd\"\n",
      "#embed \"/etc/passwd\"\n",
      "#if __has_include(\"/etc/passwd\")\n#endif\n",
      "#if __has_inc\\\nlude(\"/etc/passwd\")\n#endif\n",
      "#define P __has_include\n",
      "#if __has_embed(\"/etc/passwd\")\n#endif\n",
      "__asm__(\".incbin \\\"/etc/passwd\\\"\");\n",
      "asm(\".inc\" \"bin \\\"/etc/passwd\\\"\");\n",
      "asm(\".inc\" /* joined */\n R\"(bin \"/etc/passwd\")\");\n",
      "const char* s = R\"(\n#include \"/etc/passwd\"\n)\";\n",
      "// comment \\ \n#include \"/etc/passwd\"\n",
      "// comment \\\t\nint a;\n",
      "int a; // x\r#include \"/etc/passwd\"\n",
      "const char* s = \"\n#include \"/etc/passwd\"\n",
      "#if 0\ndon't\n#endif\n#include \"/etc/passwd\"\n",
      "int a = '\"';\n#include \"/etc/passwd\"\n",
      "int a = 1'000;\n#include \"/etc/passwd\" // '\n",
      "import \"/etc/passwd\";\n",
      "export import \"/etc/passwd\";\n",
      "im\\\nport \"/etc/passwd\";\n",
      "#define F \"/etc/passwd\"\nimport F;\n",
      "import <stdio.h>;\n",
      "\\u0069mport \"/etc/passwd\";\n",
      "\?\?=include \"/etc/passwd\"\n",
      "// comment \?\?/\n#include \"/etc/passwd\"\n",
      "#define F \"/etc/passwd\"\n#include F\n",
      "#pragma GCC dependency \"/etc/passwd\"\n",
      "#pragma /* x */ GCC /* y */ dependency \"/etc/passwd\"\n",
      "#pragma GCC pch_preprocess \"/etc/passwd\"\n",
      std::string("int a;\0\n", 8),
  };
  for (const std::string& source : hostile) {
    EXPECT_FALSE(check_self_contained(source, Includes::none).ok()) << source;
  }
}

TEST(SourceGuard, AcceptsWhatOnlyLooksLikeOne) {
  const std::vector<std::string> honest = {
      "",
      "// #include \"/etc/passwd\"\n",
      "// \\\n#include \"a continued comment\"\n",
      "/*\n#include \"/etc/passwd\"\n*/\n",
      "int include = 1, embed = 2; int b = include # 3;\n",
      "#define STRING(x) #x\n#pragma unroll\n#define CAT(a, b) a ## b\n",
      "const char* s = \"#include <x>\";\n",
      "#pragma unroll 4\n#pragma nv_diag_suppress 177\nint important = 1;\n",
      "#define A 1 \\\n  + 2\nbool ok = a ?b :c;\n",
      "asm volatile(\"{.reg .pred p;\\n\" \"wgmma.mma_async.sync.aligned;}\\n\" ::\"r\"(x));\n",
      "const char* s = R\"x(plain \" text)x\";\n",
      "char c = '\\'', d = '\"'; int n = 1'000'000; // '\n",
      "int a = b / c; /* ** */ int d = a /b;\n",
  };
  for (const std::string& source : honest) {
    const Status status = check_self_contained(source, Includes::none);
    EXPECT_TRUE(status.ok()) << source << (status.ok() ? "" : status.error().message);
  }
}

TEST(SourceGuard, SystemIncludesOnlyByPlainName) {
  for (const char* source :
       {"#include <immintrin.h>\n", "# include <sys/types.h> // why\n", "#include <c++/cstdint>\n"}) {
    EXPECT_TRUE(check_self_contained(source, Includes::system).ok()) << source;
    EXPECT_FALSE(check_self_contained(source, Includes::none).ok()) << source;
  }
  for (const char* source : {"#include \"x.h\"\n", "#include </etc/passwd>\n", "#include <../../etc/passwd>\n",
                             "#include MACRO\n", "#include <a b>\n", "#include <unterminated\n", "#include <>\n"}) {
    EXPECT_FALSE(check_self_contained(source, Includes::system).ok()) << source;
  }
}

TEST(SourceGuard, HeadersOfNamedDirectoriesOnlyByPlainName) {
  const auto accepted = [](const char* source) { return check_self_contained(source, Includes::named).ok(); };
  EXPECT_TRUE(accepted("#include <cute/tensor.hpp>\n#define JOIN(a, b) a##b\nvoid f() { asm(\"mov.u32 %0, 1;\"); }\n"));
  for (const char* source :
       {"#include \"x.h\"\n", "#include </etc/passwd>\n", "#include <cute/../../x>\n", "#include MACRO\n",
        "#embed <x>\n", "#include_next <x>\n", "import <x>;\n", "#if __has_include(<x>)\n#endif\n"}) {
    EXPECT_FALSE(accepted(source)) << source;
  }
}

// The host's assembler reads files, and a macro can spell its directives in any way.
TEST(SourceGuard, CppHoldsNoAssemblyText) {
  for (const char* source :
       {"void f() { asm volatile(\"\"); }\n", "void f() { asm(\"\" : \"+r\"(x) : : \"memory\"); }\n",
        "void f() { __asm__ __volatile__ (\"\" ::: \"memory\"); }\n"}) {
    const Status status = check_self_contained(source, Includes::system);
    EXPECT_TRUE(status.ok()) << source << (status.ok() ? "" : status.error().message);
  }
  for (const char* source :
       {"asm(\".in\" \"clude \\\"/etc/passwd\\\"\");\n",
        "#define S(x) #x\nasm(\".\" S(inc) S(bin) \" \\\"/etc/passwd\\\"\");\n",
        "asm(\"\\x2eincbi\\x6e \\\"/etc/passwd\\\"\");\n", "asm(\"\" \".include\");\n", "asm(R\"(.include)\");\n",
        "#define A asm\nA(\"nop\");\n", "int x asm(\"y\");\n", "#define J(a, b) a##b\nJ(as, m)(\".include\");\n",
        "_Pragma(\"GCC dependency \\\"/etc/passwd\\\"\")\n", "__asm__ __volatile__(\"nop\");\n"}) {
    EXPECT_FALSE(check_self_contained(source, Includes::system).ok()) << source;
  }
  EXPECT_TRUE(check_self_contained("asm volatile(\"bar.sync 0;\");\n", Includes::none).ok());
}

TEST(SourceGuard, NamesTheLine) {
  const Status status = check_self_contained("int a;\n\\\n\n#include <x>\n", Includes::none);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("line 4: #include"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace warpsmith
