/** SVG paths on a 24×24 grid. Icons are decorative: text next to them has the same meaning. */
const paths = {
  overview: 'M4 19V9m5 10V5m5 14v-7m5 7V8',
  logs: 'M5 6h14M5 12h14M5 18h9',
  keys: 'M14.5 9.5a4 4 0 1 0-4 4L12 12m2.5-2.5L20 4m-3 3 2.5 2.5M9.5 13.5l-4 4V20H8',
  credits: 'M4 7h16v11H4zM4 11h16M8 15h3',
  models: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9',
  playground: 'M5 5h14v10h-7l-4 4v-4H5z',
  jobs: 'M12 7v5l3 2M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16z',
  byok: 'M7 10V8a5 5 0 0 1 10 0v2M5 10h14v10H5zM12 14v2',
  skills: 'M6 4h10l3 3v13H6zM9 11h6M9 15h6M9 7h3',
  operator: 'M4 6h10m4 0h2M4 12h2m4 0h10M4 18h8m4 0h4M16 4v4M8 10v4m6 2v4',
  configuration: 'M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01',
  prices: 'M4 12V5h7l9 9-6 6zM8 9h.01',
  audit: 'M6 4h12v16H6zM9 9h6M9 13h6M9 17h3',
  explain: 'M5 19V8a3 3 0 0 1 3-3h11m-3-3 3 3-3 3M5 13h14m-3-3 3 3-3 3',
  copy: 'M9 9h10v11H9zM5 15V4h10v2',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  close: 'M6 6l12 12M18 6 6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  sun:
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2m0 16v2M4 12H2m20 0h-2M5 5l1.4 1.4m11.2 11.2L19 19' +
    'M19 5l-1.4 1.4M6.4 17.6 5 19',
  moon: 'M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z',
  out: 'M10 4H5v16h5M14 8l4 4-4 4m4-4H9',
  down: 'M12 4v11m-4-4 4 4 4-4M5 20h14',
  plus: 'M12 5v14M5 12h14',
  refresh: 'M19 8a8 8 0 1 0 1 6M20 4v4h-4',
  send: 'M5 12h13m-5-6 6 6-6 6',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9.5h.01',
  stop: 'M7 7h10v10H7z',
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

/** The logo: a toll gate with a half-open arm. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <rect class="mark-ground" width="32" height="32" rx="8" />
      <rect class="mark-post" x="6" y="8" width="5" height="17" rx="1.5" />
      <g transform="rotate(-24 10 13)">
        <rect class="mark-arm" x="9" y="11" width="19" height="4.4" rx="2.2" />
        <path class="mark-ground" d="M14 11h3l-1.6 4.4h-3zM20 11h3l-1.6 4.4h-3z" />
      </g>
    </svg>
  );
}
