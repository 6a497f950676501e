// A headless Chromium that tests drive over the DevTools protocol: pages, clicks and keys, what the page logged and
// asked the network for, and the colours of its pixels.
#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace warpsmith {

// One page. Every failure throws std::runtime_error.
class Browser {
 public:
  // The program on PATH; nullopt: there is none.
  static std::optional<std::string> find();

  explicit Browser(const std::string& program);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void set_window(int width, int height);
  // "screen" or "print"; "light" or "dark".
  void set_media(const std::string& media, const std::string& color_scheme);
  void open(const std::filesystem::path& file);  // returns when it is loaded; forgets what was logged before

  // The value of an expression of the page (a promise is awaited).
  nlohmann::json evaluate(const std::string& expression);
  void click(double x, double y);
  void press(const std::string& key);  // "ArrowRight", "Enter"

  // What went wrong since open(): console messages, exceptions, log entries of the browser.
  const std::vector<std::string>& complaints();
  // Addresses that were asked for since open(), the page's own first.
  const std::vector<std::string>& requests();

  struct Region {
    double x = 0, y = 0, width = 0, height = 0;  // CSS pixels of the window
  };
  struct Color {
    std::array<double, 3> mean{}, deviation{};  // red, green, blue: 0 to 255
  };
  // From one screenshot of the window.
  std::vector<Color> colors(const std::vector<Region>& regions);

 private:
  nlohmann::json call(const std::string& method, const nlohmann::json& parameters, const std::string& session);
  nlohmann::json evaluate_in(const std::string& session, const std::string& expression);
  nlohmann::json receive();  // the next message
  void take_event(const nlohmann::json& message);
  std::string new_page();
  void stop();

  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  int last_id_ = 0;
  std::string received_;
  std::string page_, canvas_;  // sessions: the page under test, and one that reads pixels
  bool loaded_ = false;
  std::vector<std::string> complaints_, requests_;
  std::filesystem::path profile_;
};

}  // namespace warpsmith
