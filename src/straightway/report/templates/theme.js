// Light or dark: as the system says until the button is pressed; the choice is remembered.
const theme = byId("theme");
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);

function remembered(value) {
  // A page opened from a file may be denied storage; the button works without it.
  try {
    if (value) localStorage.setItem("straightway-theme", value);
    return localStorage.getItem("straightway-theme");
  } catch (error) {
    if (error instanceof DOMException) return null;
    throw error;
  }
}

function labelTheme() {
  theme.lastElementChild.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
}

const kept = remembered();
if (kept === "dark" || kept === "light") root.dataset.theme = kept;
theme.hidden = false;
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  remembered(root.dataset.theme);
  labelTheme();
});
systemDark.addEventListener("change", labelTheme);
labelTheme();
