// Before anything is painted: light or dark as somebody chose here (src/api/scheme.ts); else the system's.
try {
  const chosen = localStorage.getItem('koda.scheme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.scheme = chosen;
} catch {
  // a browser that keeps nothing
}
