// Dark, light, or what the system says. The choice is kept in this browser.

export type Theme = 'auto' | 'light' | 'dark';
const listeners = new Set<() => void>();
export const onTheme = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};
const dark = matchMedia('(prefers-color-scheme: dark)');
const read = (): Theme => {
  try {
    const kept = localStorage.getItem('weir-theme');
    return kept === 'light' || kept === 'dark' ? kept : 'auto';
  } catch {
    return 'auto';
  }
};
let theme = read();
export const chosen = () => theme;
function apply() {
  document.documentElement.dataset.theme = theme === 'auto' ? (dark.matches ? 'dark' : 'light') : theme;
  listeners.forEach((listener) => listener());
}
export function choose(next: Theme) {
  theme = next;
  try {
    localStorage.setItem('weir-theme', next);
  } catch { /* private windows */ }
  apply();
}
// How much larger than usual everything is: canvases do not follow the style sheet by themselves.
export const scale = () => parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
dark.addEventListener('change', apply);
apply();
