// The page in a headless Chromium: it loads without a complaint and without the network, shows known data in known
// colours, opens a shape's details on a click, and serves dark mode, narrow windows, paper and the keyboard.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "html_browser.h"
#include "html_samples.h"
#include "report/html_page.h"

namespace warpsmith {
namespace {

namespace fs = std::filesystem;

// The colours of style.css: {light, dark}.
using Rgb = std::array<double, 3>;
constexpr Rgb kPage[] = {{255, 255, 255}, {20, 23, 27}};
constexpr Rgb kNeutral[] = {{236, 238, 241}, {43, 48, 56}};
constexpr Rgb kGain[] = {{11, 87, 168}, {109, 179, 255}};
constexpr Rgb kLoss[] = {{182, 68, 0}, {255, 154, 77}};

double distance(const Rgb& a, const Rgb& b) {
  return std::sqrt(std::pow(a[0] - b[0], 2) + std::pow(a[1] - b[1], 2) + std::pow(a[2] - b[2], 2));
}

class HtmlBrowser : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const auto program = Browser::find()) browser_ = std::make_unique<Browser>(*program);
  }
  static void TearDownTestSuite() { browser_.reset(); }

  void SetUp() override {
    if (!browser_) GTEST_SKIP() << "not run: no Chromium on PATH (Debian: chromium-headless-shell)";
    std::string pattern = (fs::temp_directory_path() / "warpsmith-page-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    browser_->set_window(1400, 3000);
    browser_->set_media("screen", "light");
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  void open_text(const std::string& text) {
    std::ofstream(folder_ / "report.html", std::ios::binary) << text;
    browser_->open(folder_ / "report.html");
  }
  void open_report(const ReportInputs& inputs) {
    const auto data = report_data(inputs);
    ASSERT_TRUE(data.ok()) << data.error().message;
    open_text(html_page(*data));
  }

  static nlohmann::json evaluate(const std::string& expression) { return browser_->evaluate(expression); }
  static std::string text_of(const std::string& selector) {
    return evaluate("document.querySelector('" + selector + "').textContent");
  }
  static int count_of(const std::string& selector) {
    return evaluate("document.querySelectorAll('" + selector + "').length");
  }
  // The middle half of an element, where no border or outline reaches.
  static Browser::Region inside(const std::string& selector) {
    const auto box = evaluate("(() => { const b = document.querySelector('" + selector +
                              "').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()");
    const double x = box[0], y = box[1], width = box[2], height = box[3];
    return {std::round(x + width / 4), std::round(y + height / 4), std::floor(width / 2), std::floor(height / 2)};
  }
  // Cell of a shape of three_panels(), which the page numbers by k, then m, then n.
  static std::string cell(int k, int m, int n) { return fmt::format(".grid [data-shape=\"{}\"]", 9 * k + 3 * m + n); }
  static void expect_clean() {
    EXPECT_TRUE(browser_->complaints().empty()) << browser_->complaints().front();
    ASSERT_EQ(browser_->requests().size(), 1u) << browser_->requests().back();
    EXPECT_TRUE(browser_->requests()[0].starts_with("file://"));
  }

  static std::unique_ptr<Browser> browser_;
  fs::path folder_;
};
std::unique_ptr<Browser> HtmlBrowser::browser_;

// What expect_clean() relies on: a bad page is seen.
TEST_F(HtmlBrowser, ComplaintsAndRequestsOfABadPageAreSeen) {
  open_text("<script>console.log('said')</script>");
  EXPECT_EQ(browser_->complaints().size(), 1u);
  open_text("<script>nothing.here()</script>");
  ASSERT_FALSE(browser_->complaints().empty());
  EXPECT_NE(browser_->complaints()[0].find("nothing is not defined"), std::string::npos);
  open_text("<img src='http://example.invalid/x.png'>");
  EXPECT_EQ(browser_->requests().size(), 2u);
  EXPECT_FALSE(browser_->complaints().empty());
}

TEST_F(HtmlBrowser, LoadsCleanlyAndPaintsKnownRatiosInKnownColors) {
  open_report(three_panels());
  expect_clean();
  EXPECT_EQ(evaluate("document.title"), "HGEMM on Test device");
  EXPECT_EQ(count_of(".panel"), 3);
  EXPECT_EQ(count_of(".grid .cell"), 27);
  EXPECT_EQ(count_of(".grid .cell.none"), 1);
  EXPECT_EQ(text_of(".panel figcaption"), "K = 641.000×");  // 2, 1 and 0.5 three times each

  for (const int dark : {0, 1}) {
    browser_->set_media("screen", dark ? "dark" : "light");
    std::vector<Browser::Region> regions = {{2, 2, 20, 20}};
    for (int k = 0; k < 3; ++k) {
      for (int m = 0; m < 3; ++m) regions.push_back(inside(cell(k, m, 1)));
    }
    const auto colors = browser_->colors(regions);
    EXPECT_LT(distance(colors[0].mean, kPage[dark]), 2) << dark;
    for (std::size_t i = 1; i < colors.size(); ++i) {
      const Rgb& wanted = ((i - 1) % 3 == 0 ? kGain : (i - 1) % 3 == 1 ? kNeutral : kLoss)[dark];
      EXPECT_LT(distance(colors[i].mean, wanted), 4) << "cell " << i << " dark " << dark;
      EXPECT_LT(colors[i].deviation[1], 2) << "cell " << i << " dark " << dark;
    }
  }
  expect_clean();
}

// Between the ends of the scale: nearer to the neutral colour the nearer the ratio is to 1.
TEST_F(HtmlBrowser, ColorsAreOrderedAndCenteredAtOne) {
  std::string text = "m,n,k,ours_us,lt_auto_us\n";
  const double ratios[] = {0.5, 0.6, 0.75, 0.9, 1.0, 1.1, 1.35, 1.7, 2.0};
  for (std::size_t i = 0; i < std::size(ratios); ++i) text += fmt::format("64,{},64,1,{}\n", i + 1, ratios[i]);
  ReportInputs inputs;
  inputs.offline = ReportFile{"grid-offline.csv", text};
  open_report(inputs);
  expect_clean();
  std::vector<Browser::Region> regions;
  for (std::size_t i = 0; i < std::size(ratios); ++i)
    regions.push_back(inside(fmt::format(".grid [data-shape=\"{}\"]", i)));
  const auto colors = browser_->colors(regions);
  EXPECT_LT(distance(colors[4].mean, kNeutral[0]), 2);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GT(distance(colors[i].mean, kNeutral[0]), distance(colors[i + 1].mean, kNeutral[0]) + 5) << i;
    EXPECT_GT(distance(colors[8 - i].mean, kNeutral[0]), distance(colors[7 - i].mean, kNeutral[0]) + 5) << 8 - i;
    EXPECT_GT(colors[i].mean[0], colors[i].mean[2]) << i;          // slower: red above blue
    EXPECT_LT(colors[8 - i].mean[0], colors[8 - i].mean[2]) << i;  // faster: blue above red
  }
}

TEST_F(HtmlBrowser, AClickOpensEverythingAboutAShape) {
  open_report(three_panels());
  EXPECT_TRUE(evaluate("document.getElementById('detail').hidden"));
  const auto region = inside(cell(1, 2, 0));  // 256 x 64 x 512: half as fast
  browser_->click(region.x + region.width / 2, region.y + region.height / 2);
  EXPECT_FALSE(evaluate("document.getElementById('detail').hidden"));
  EXPECT_EQ(text_of("#detail-title"), "256 × 64 × 512");
  const std::string detail = text_of("#detail");
  for (const char* part :
       {"Cold0.500×", "Ours: NN won, 16.0 µs against 32.0 µs.", "cuBLASLt: TN won, 8.00 µs against 9.00 µs.",
        "cuBLASLt heuristic8.50 µs", "Recipe: sm90", "sm90 tile=256x64 note=<b>&amp;</b>", "Gatespassed 17"}) {
    EXPECT_NE(detail.find(part), std::string::npos) << part << " is not in: " << detail;
  }
  EXPECT_EQ(count_of("#detail b"), 0);  // the recipe's markup is text
  EXPECT_EQ(evaluate("document.querySelector('.cell.selected').dataset.shape"), "15");
  EXPECT_EQ(evaluate("location.hash"), "#256x64x512");
  browser_->press("Escape");
  EXPECT_TRUE(evaluate("document.getElementById('detail').hidden"));
  EXPECT_EQ(evaluate("document.activeElement.dataset.shape"), "15");
  expect_clean();
}

TEST_F(HtmlBrowser, TheKeyboardReachesCells) {
  open_report(three_panels());
  evaluate("document.querySelector('.grid [tabindex=\"0\"]').focus()");
  for (const char* key : {"ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft", "Enter"})
    browser_->press(key);
  EXPECT_EQ(text_of("#detail-title"), "256 × 64 × 64");
  EXPECT_EQ(count_of(".grid [tabindex=\"0\"]"), 3);  // one way in for each panel
  expect_clean();
}

TEST_F(HtmlBrowser, FiltersAndModesChangeWhatIsShown) {
  ReportInputs inputs = three_panels();
  inputs.call = ReportFile{"grid-call.csv", "m,n,k,ours_us,lt_auto_us\n64,64,64,10,15\n128,64,64,10,20\n"};
  open_report(inputs);
  const auto press = [](const std::string& container, const std::string& title) {
    return evaluate("[...document.querySelectorAll('" + container + " button')].find((b) => b.textContent === '" +
                    title + "').click()");
  };
  EXPECT_NE(text_of("#selection").find("over 26 shapes"), std::string::npos) << text_of("#selection");
  press("#filter-rows", "512");
  EXPECT_NE(text_of("#selection").find("over 9 shapes"), std::string::npos) << text_of("#selection");
  EXPECT_EQ(count_of(".panel:not([hidden])"), 1);
  press("#filter-rows", "tiny");  // tiny kernels are at K = 64 alone
  EXPECT_NE(text_of("#selection").find("no shape passes the filter"), std::string::npos) << text_of("#selection");
  press("#filter-rows", "Clear");
  press("#modes", "Call");
  EXPECT_NE(text_of("#selection").find("Call over cuBLASLt auto-tuned: 1.732×"), std::string::npos)
      << text_of("#selection");
  EXPECT_EQ(count_of(".grid .cell.none"), 25);
  EXPECT_FALSE(evaluate("document.getElementById('call').hidden"));
  EXPECT_TRUE(evaluate("document.getElementById('server').hidden"));
  EXPECT_TRUE(evaluate("document.getElementById('llm').hidden"));
  EXPECT_TRUE(evaluate("document.getElementById('accuracy').hidden"));
  expect_clean();
}

TEST_F(HtmlBrowser, SectionsOfOptionalFilesAppear) {
  ReportInputs inputs = three_panels();
  inputs.server =
      ReportFile{"grid-server.csv", "m,n,k,ours_us,lt_auto_us,ours_p95_us,lt_auto_p95_us\n64,64,64,10,15,20,40\n"};
  inputs.llm = ReportFile{"llm-shapes.csv", "model,m,n,k,ours_us,lt_auto_us,recipe\nL,1,4096,4096,2,3,skinny a=b\n"};
  inputs.accuracy = ReportFile{"grid-accuracy.csv",
                               "m,n,k,ours_max_error,lt_f32_max_error,layout\n"
                               "64,64,64,1e-3,2e-3,nn\n64,64,128,3e-3,2e-3,tn\n64,64,256,1e-3,inf,nn\n"};
  inputs.summary = ReportFile{"grid-summary.json", R"({"rejected": {"bound": [1, 2]}})"};
  open_report(inputs);
  expect_clean();
  EXPECT_NE(text_of("#server").find("p95"), std::string::npos);
  EXPECT_NE(text_of("#llm .table").find("1.500×"), std::string::npos);
  EXPECT_EQ(count_of("#accuracy .dot"), 5);
  EXPECT_NE(text_of("#accuracy").find("1 infinite"), std::string::npos);
  EXPECT_NE(text_of("#accuracy-note").find("no worse than cuBLASLt FP32: max error on 2 of 3."), std::string::npos)
      << text_of("#accuracy-note");
  evaluate("document.querySelector('#run-summary summary').click()");
  EXPECT_NE(text_of("#run-summary .scroll").find("rejected › bound1, 2"), std::string::npos) << text_of("#run-summary");
  EXPECT_EQ(count_of("#sections a"), 10);
}

TEST_F(HtmlBrowser, ServesOneModeAlone) {
  ReportInputs inputs;
  inputs.server = ReportFile{"grid-server.csv",
                             "m,n,k,ours_us,lt_auto_us,recipe\n64,64,64,10,15,tiny a=1\n64,128,64,10,,tiny a=2\n"};
  open_report(inputs);
  EXPECT_NE(text_of("#selection").find("Server over cuBLASLt auto-tuned: 1.500×"), std::string::npos)
      << text_of("#selection");
  EXPECT_EQ(count_of(".grid .cell.none"), 1);
  EXPECT_TRUE(evaluate("document.getElementById('call').hidden"));
  evaluate("document.querySelector('#shape-table .link').click()");
  EXPECT_NE(text_of("#detail").find("tiny a=1"), std::string::npos) << text_of("#detail");
  expect_clean();
}

// So many values of K make no grid: the list of shapes is what remains.
TEST_F(HtmlBrowser, ShapesOffAnyGridAreListed) {
  std::string text = "m,n,k,ours_us,lt_auto_us\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("{},{},{},1,{}\n", 100 + i, 7 * i + 1, 64 + i, 1 + 0.01 * i);
  ReportInputs inputs;
  inputs.offline = ReportFile{"grid-offline.csv", text};
  open_report(inputs);
  EXPECT_EQ(count_of(".panel"), 0);
  EXPECT_NE(text_of("#heat-note").find("30 values of K"), std::string::npos) << text_of("#heat-note");
  EXPECT_EQ(count_of("#shape-table tbody tr"), 20);
  evaluate("document.getElementById('more').click()");
  EXPECT_EQ(count_of("#shape-table tbody tr"), 30);
  EXPECT_EQ(text_of("#shape-table tbody tr td:nth-child(7)"), "1.000×");
  evaluate("document.querySelector('[data-key=ratio]').click()");  // sorted upwards at first
  EXPECT_EQ(text_of("#shape-table tbody tr td:nth-child(7)"), "1.290×");
  expect_clean();
}

TEST_F(HtmlBrowser, TheThemeButtonAndTheSystemSwitchColors) {
  open_report(three_panels());
  const std::vector<Browser::Region> corner = {{2, 2, 20, 20}};
  EXPECT_LT(distance(browser_->colors(corner)[0].mean, kPage[0]), 2);
  evaluate("document.getElementById('theme').click()");
  EXPECT_LT(distance(browser_->colors(corner)[0].mean, kPage[1]), 2);
  EXPECT_EQ(text_of("#theme"), "Light");
  browser_->set_media("screen", "dark");
  evaluate("document.getElementById('theme').click()");  // light against the system
  EXPECT_LT(distance(browser_->colors(corner)[0].mean, kPage[0]), 2);
  browser_->set_media("print", "dark");  // paper is white
  EXPECT_LT(distance(browser_->colors(corner)[0].mean, kPage[0]), 2);
  EXPECT_EQ(evaluate("getComputedStyle(document.getElementById('modes')).display"), "none");
  expect_clean();
}

TEST_F(HtmlBrowser, FitsANarrowWindow) {
  browser_->set_window(390, 3000);
  open_report(three_panels());
  EXPECT_LE(evaluate("document.documentElement.scrollWidth").get<int>(), 390);
  const auto region = inside(cell(0, 0, 0));
  browser_->click(region.x + 2, region.y + 2);
  EXPECT_EQ(text_of("#detail-title"), "64 × 64 × 64");
  EXPECT_LE(evaluate("document.documentElement.scrollWidth").get<int>(), 390);
  expect_clean();
}

// Text and its ground differ enough (WCAG 2.2, 1.4.3: 4.5) in both modes, wherever text is smaller than a heading.
TEST_F(HtmlBrowser, TextHasContrast) {
  for (const char* scheme : {"light", "dark"}) {
    browser_->set_media("screen", scheme);
    open_report(three_panels());
    const auto worst = evaluate(R"((() => {
      const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
      const rgb = (color) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
      };
      const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
        const v = c[i] / 255;
        return sum + weight * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
      }, 0);
      let worst = [99, ''];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const element = node.parentElement;
        if (!node.textContent.trim() || !element.checkVisibility() || element.closest('script, .cell, svg, .tip, .skip, .unseen')) continue;
        let ground = element;
        while (ground && rgb(getComputedStyle(ground).backgroundColor)[3] === 0) ground = ground.parentElement;
        const back = rgb(getComputedStyle(ground).backgroundColor);
        if (back[3] < 255) continue;  // a tint over the page
        const [a, b] = [luminance(rgb(getComputedStyle(element).color)), luminance(back)].sort((x, y) => y - x);
        const contrast = (a + 0.05) / (b + 0.05);
        if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 120)];
      }
      return worst;
    })())");
    EXPECT_GE(worst[0].get<double>(), 4.5) << scheme << ": " << worst[1];
    EXPECT_LT(worst[0].get<double>(), 21) << scheme;
  }
}

}  // namespace
}  // namespace warpsmith
