// DevTools over a pair of pipes: JSON messages that end with a zero byte.
#include "html_browser.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace warpsmith {

namespace {

namespace fs = std::filesystem;

constexpr int kTimeoutMs = 60'000;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("browser: " + what); }

// Puts a screenshot on a canvas of its own page, so that pixels can be read without a PNG decoder here.
constexpr const char* kReadPixels = R"((async (png, regions) => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + png;
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = canvas.getContext('2d', {willReadFrequently: true});
  context.drawImage(image, 0, 0);
  return regions.map(([x, y, width, height]) => {
    const {data} = context.getImageData(x, y, width, height);
    return [0, 1, 2].map((channel) => {
      let sum = 0, squares = 0;
      for (let i = channel; i < data.length; i += 4) { sum += data[i]; squares += data[i] ** 2; }
      const mean = sum / (data.length / 4);
      return [mean, Math.sqrt(Math.max(0, squares / (data.length / 4) - mean ** 2))];
    });
  });
}))";

}  // namespace

std::optional<std::string> Browser::find() {
  const char* path = std::getenv("PATH");
  for (const char* name : {"chromium-headless-shell", "chromium", "google-chrome"}) {
    std::string_view rest = path == nullptr ? "" : path;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      const fs::path program = fs::path(rest.substr(0, end)) / name;
      if (access(program.c_str(), X_OK) == 0) return program.string();
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return std::nullopt;
}

Browser::Browser(const std::string& program) {
  std::string pattern = (fs::temp_directory_path() / "warpsmith-browser-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) fail("no temporary directory");
  profile_ = pattern;
  int commands[2], answers[2];
  if (pipe2(commands, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) fail("no pipe");
  // Nothing but the page itself goes to the network; the sandbox needs rights that containers lack, and the page is
  // ours.
  const std::vector<std::string> arguments = {program,
                                              "--headless",
                                              "--no-sandbox",
                                              "--disable-gpu",
                                              "--disable-dev-shm-usage",
                                              "--disable-background-networking",
                                              "--disable-component-update",
                                              "--no-first-run",
                                              "--hide-scrollbars",
                                              "--force-color-profile=srgb",
                                              "--host-resolver-rules=MAP * ~NOTFOUND",
                                              "--remote-debugging-pipe",
                                              "--user-data-dir=" + profile_.string(),
                                              "about:blank"};
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  process_ = fork();
  if (process_ < 0) fail("no process");
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    // Above 4 first: a pipe may sit on 3 or 4 already.
    const int read_end = fcntl(commands[0], F_DUPFD, 10), write_end = fcntl(answers[1], F_DUPFD, 10);
    const int nowhere = ::open("/dev/null", O_RDWR);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(nowhere, 2);
    dup2(read_end, 3);
    dup2(write_end, 4);
    for (int descriptor = 5; descriptor < 256; ++descriptor) close(descriptor);
    execv(program.c_str(), argv.data());
    _exit(127);
  }
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  try {
    page_ = new_page();
    canvas_ = new_page();
    for (const char* domain : {"Page.enable", "Runtime.enable", "Log.enable", "Network.enable"})
      call(domain, {}, page_);
  } catch (...) {
    stop();
    throw;
  }
}

Browser::~Browser() { stop(); }

void Browser::stop() {
  if (to_ >= 0) close(to_);  // ends the browser
  if (from_ >= 0) close(from_);
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 50 && !ended; ++i) {
    ended = waitpid(process_, &status, WNOHANG) == process_;
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(-process_, SIGKILL);  // and what it started
  if (!ended) waitpid(process_, &status, 0);
  std::error_code ignored;
  fs::remove_all(profile_, ignored);
}

std::string Browser::new_page() {
  const auto target = call("Target.createTarget", {{"url", "about:blank"}}, "");
  return call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}}, "")["sessionId"];
}

nlohmann::json Browser::receive() {
  while (true) {
    const std::size_t end = received_.find('\0');
    if (end != std::string::npos) {
      auto message = nlohmann::json::parse(received_.substr(0, end));
      received_.erase(0, end + 1);
      return message;
    }
    pollfd waiting = {from_, POLLIN, 0};
    const int ready = poll(&waiting, 1, kTimeoutMs);
    if (ready == 0) fail("no answer in time");
    if (ready < 0 && errno == EINTR) continue;
    std::array<char, 65536> buffer{};
    const ssize_t count = ready > 0 ? read(from_, buffer.data(), buffer.size()) : -1;
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("it ended");
    received_.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void Browser::take_event(const nlohmann::json& message) {
  const std::string method = message.value("method", "");
  if (message.value("sessionId", "") != page_) return;
  const nlohmann::json& parameters = message["params"];
  if (method == "Page.loadEventFired") loaded_ = true;
  if (method == "Runtime.consoleAPICalled") complaints_.push_back("console: " + parameters["args"].dump());
  if (method == "Runtime.exceptionThrown") complaints_.push_back("exception: " + parameters["exceptionDetails"].dump());
  if (method == "Log.entryAdded") complaints_.push_back("log: " + parameters["entry"].dump());
  if (method == "Network.requestWillBeSent") requests_.push_back(parameters["request"]["url"]);
}

nlohmann::json Browser::call(const std::string& method, const nlohmann::json& parameters, const std::string& session) {
  nlohmann::json message = {{"id", ++last_id_}, {"method", method}};
  if (!parameters.is_null()) message["params"] = parameters;
  if (!session.empty()) message["sessionId"] = session;
  const std::string text = message.dump() + '\0';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = write(to_, text.data() + at, text.size() - at);
    if (count < 0 && errno != EINTR) fail("it does not listen");
    at += count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  while (true) {
    const nlohmann::json answer = receive();
    if (answer.value("id", 0) != last_id_) {
      take_event(answer);
    } else if (answer.contains("error")) {
      fail(method + ": " + answer["error"].dump());
    } else {
      return answer["result"];
    }
  }
}

void Browser::set_window(int width, int height) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}}, page_);
}

void Browser::set_media(const std::string& media, const std::string& color_scheme) {
  const nlohmann::json feature = {{"name", "prefers-color-scheme"}, {"value", color_scheme}};
  call("Emulation.setEmulatedMedia", {{"media", media}, {"features", nlohmann::json::array({feature})}}, page_);
}

void Browser::open(const fs::path& file) {
  call("Page.navigate", {{"url", "about:blank"}}, page_);
  evaluate("0");
  complaints_.clear();
  requests_.clear();
  loaded_ = false;
  const auto answer = call("Page.navigate", {{"url", "file://" + fs::absolute(file).string()}}, page_);
  if (answer.contains("errorText")) fail(answer["errorText"]);
  // A blank page's load may still be reported: what counts is the load of the file.
  while (!loaded_ || evaluate("location.protocol + document.readyState") != "file:complete") {
    if (!loaded_) take_event(receive());
  }
}

nlohmann::json Browser::evaluate_in(const std::string& session, const std::string& expression) {
  const auto answer =
      call("Runtime.evaluate", {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}}, session);
  if (answer.contains("exceptionDetails")) fail(expression.substr(0, 200) + ": " + answer["exceptionDetails"].dump());
  return answer["result"].value("value", nlohmann::json());
}

nlohmann::json Browser::evaluate(const std::string& expression) { return evaluate_in(page_, expression); }

void Browser::click(double x, double y) {
  for (const char* type : {"mouseMoved", "mousePressed", "mouseReleased"}) {
    nlohmann::json event = {{"type", type}, {"x", x}, {"y", y}};
    if (type != std::string_view("mouseMoved")) event.update({{"button", "left"}, {"clickCount", 1}});
    call("Input.dispatchMouseEvent", event, page_);
  }
}

void Browser::press(const std::string& key) {
  nlohmann::json event = {{"type", "keyDown"}, {"key", key}, {"code", key}};
  if (key == "Enter") event.update({{"text", "\r"}, {"windowsVirtualKeyCode", 13}});
  if (key == "Tab") event["windowsVirtualKeyCode"] = 9;
  call("Input.dispatchKeyEvent", event, page_);
  call("Input.dispatchKeyEvent", {{"type", "keyUp"}, {"key", key}, {"code", key}}, page_);
}

const std::vector<std::string>& Browser::complaints() {
  // Whatever happened is reported before this answer.
  evaluate("new Promise((done) => setTimeout(done, 50))");
  return complaints_;
}

const std::vector<std::string>& Browser::requests() {
  evaluate("new Promise((done) => setTimeout(done, 50))");
  return requests_;
}

std::vector<Browser::Color> Browser::colors(const std::vector<Region>& regions) {
  const std::string png = call("Page.captureScreenshot", {{"format", "png"}}, page_)["data"];
  nlohmann::json boxes = nlohmann::json::array();
  for (const Region& each : regions) boxes.push_back({each.x, each.y, each.width, each.height});
  const auto found =
      evaluate_in(canvas_, fmt::format("{}({}, {})", kReadPixels, nlohmann::json(png).dump(), boxes.dump()));
  std::vector<Color> colors;
  for (const auto& region : found) {
    Color color;
    for (std::size_t channel = 0; channel < 3; ++channel) {
      color.mean[channel] = region[channel][0];
      color.deviation[channel] = region[channel][1];
    }
    colors.push_back(color);
  }
  return colors;
}

}  // namespace warpsmith
