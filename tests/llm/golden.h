// Prompts beside files that pin them. WARPSMITH_UPDATE_GOLDEN=1 writes those anew.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "llm/chat.h"

namespace warpsmith::llm {

// Of the test's own WARPSMITH_GOLDEN.
inline void expect_golden(const std::string& file, const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) text += "===== " + message.role + " =====\n" + message.content + "\n";
  const std::filesystem::path path = std::filesystem::path(WARPSMITH_GOLDEN) / file;
  if (std::getenv("WARPSMITH_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file_atomic(path, text));
  }
  const auto golden = read_file(path);
  ASSERT_TRUE(golden) << golden.error().message;
  EXPECT_EQ(text, *golden) << path;
}

}  // namespace warpsmith::llm
