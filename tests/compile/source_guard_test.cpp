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

// Compilers quote lines of the file that #line names, and write some names into the assembly as they are.
TEST(SourceGuard, NamesNoOtherFileAndNothingForTheAssembler) {
  for (const char* source :
       {"#line 1 \"/etc/passwd\"\n", "#line 1 \"x.cpp\"\n#line 1 \"/etc/passwd\"\n", "%:line 1 \"/etc/passwd\"\n",
        "#li\\\nne 1 \"/etc/passwd\"\n", "# /**/ line 1 \"/etc/passwd\"\n", "#line 1 \"\\x2f\"\n", "#line 7\n",
        "#define F 1 \"/etc/passwd\"\n#line F\n", "# 1 \"/etc/passwd\"\n", "%: 1 \"/etc/passwd\" 1 3\n",
        "#line 1 \"x.cpp\"\n# 1 \"y.cpp\"\n", "#ident \"x\"\n", "#sccs \"x\"\n", "#pragma extern_prefix \"x\"\n"}) {
    EXPECT_FALSE(check_self_contained(source, Includes::none).ok()) << source;
    EXPECT_FALSE(check_self_contained(source, Includes::system).ok()) << source;
  }
  for (const char* source :
       {"#define P(x, y) x%:%:y\nP(as, m)(\".include\");\n", "%:define P(x, y) x%:\\\n%:y\n",
        "__attribute__((section(\"x\\n.include\"))) int a;\n", "[[gnu::section(\"x\")]] int a;\n",
        "[[using gnu: __section__(\"x\")]] int a;\n", "#define S section\n__attribute__((S(\"x\"))) int a;\n",
        "__attribute__((ali\\\nas(\"x\"))) int a();\n", "void f() __attribute__((alias(\"x\")));\n",
        "__attribute__((symver(\"x\"))) void f() {}\n", "__attribute__((sect\\u0069on(\"x\"))) int a;\n",
        "#define volatile (\".include\"); g\nvoid f() { asm volatile(\"\"); }\n", "__CONCAT(as, m)(\".include\");\n",
        "int f() __REDIRECT(f, (), x; .include);\n"}) {
    const Status status = check_self_contained(source, Includes::system);
    ASSERT_FALSE(status.ok()) << source;
    EXPECT_NE(status.error().message.find("line "), std::string::npos);
  }
  const Status digraph = check_self_contained("#define P(x, y) x%:%:y\n", Includes::system);
  EXPECT_NE(digraph.error().message.find("%:%:"), std::string::npos);
  for (const char* source :
       {"#define A 1\n#line 1 \"mine-2.cpp\"\nint a;\n", "#\n# // nothing\n#if 1\n#elif 0\n#endif\n",
        "#pragma GCC unroll 4\nint a = 4 % 3;\n", "int sections, aliases;\n"}) {
    const Status status = check_self_contained(source, Includes::system);
    EXPECT_TRUE(status.ok()) << source << (status.ok() ? "" : status.error().message);
  }
}

// What one reader takes for text, another may take for code.
TEST(SourceGuard, HidesNothingInNumbersCommentsAndLiterals) {
  const std::string hidden = "asm(\".include\");";
  for (const std::string& source :
       {"int a = 1'0; " + hidden + " // '\n", "#define I(x)\nI(1.R\"(\") " + hidden + " //)\"\n",
        "I(1e+R\"(\") " + hidden + " //)\"\n", "I(\"a\"R\"(\") " + hidden + " //)\"\n",
        "int a = 1'; " + hidden + " // '\n", "I(\xc3\xa9R\"(\") " + hidden + " //)\"\n",
        "#pragma x // /*\n" + hidden + " /* */\n", "#pragma x //*\n" + hidden + " /* */\n",
        "#pragma x \"/*\"\n" + hidden + " /* \" */\n", "const char* s = R\"()\\\n\" )\"; " + hidden + "\n",
        "#define A R\"(\n" + hidden + "\n)\"\n", "const char* s = R\" (x) \"; " + hidden + "\n",
        "#if 0\nR\"(\n#endif\n" + hidden + "\n)\"\n", "#if 0\nR\"(\n%:endif\n" + hidden + "\n)\"\n"}) {
    EXPECT_FALSE(check_self_contained(source, Includes::system).ok()) << source;
  }
  for (const char* source : {"int n = 1'000'000; double x = 1e-3, y = .5e+2, z = 0x1p-3; int m = 0xE + 1;\n",
                             "const char* s = R\"x(a\n b)x\";\n",
                             "// gr\xc3\xb6\xc3\x9f"
                             "er\nconst char* s = \"\xc3\xa9\";\n",
                             "auto s = \"a\"_x; auto t = \"b\" R\"(c)\";\n"}) {
    const Status status = check_self_contained(source, Includes::system);
    EXPECT_TRUE(status.ok()) << source << (status.ok() ? "" : status.error().message);
  }
}

TEST(SourceGuard, NamesTheLine) {
  const Status status = check_self_contained("int a;\n\\\n\n#include <x>\n", Includes::none);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("line 4: #include"), std::string::npos) << status.error().message;
}

}  // namespace
}  // namespace warpsmith
