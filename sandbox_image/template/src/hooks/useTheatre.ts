// The values of a Theatre object at the page's time; see src/koda/useTheatre.ts.
export { useTheatre } from '../koda/useTheatre';
