"""How wide a browser is, and whether what it shows can be read."""

from __future__ import annotations

from selenium import webdriver

WIDE, PHONE, SMALL = (1280, 900), (390, 844), (320, 640)

# Gives the texts that hardly differ from what is behind them.
CONTRAST = """
const shade = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * shade(r) + 0.7152 * shade(g) + 0.0722 * shade(b);
const parts = text => text.match(/[0-9.]+/g).map(Number);
const behind = e => {
  for (; e; e = e.parentElement) {
    const colour = parts(getComputedStyle(e).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const poor = [];
for (const e of document.querySelectorAll('body *')) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
  if (e.closest('svg')) continue;
  const [a, b] = [light(parts(getComputedStyle(e).color)), light(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) poor.push([ratio.toFixed(2), e.outerHTML.slice(0, 80)]);
}
return poor;
"""


def show(browser: webdriver.Chrome, size: tuple[int, int], dark: bool = False) -> None:
    width, height = size
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size != WIDE},
    )
    feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
