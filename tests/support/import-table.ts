/** What each module or file of src may import. `types` only with `import type`. */
export const mayImport: Readonly<Record<string, { values: string; types?: string }>> = {
  core: { values: '' },
  // The fee table and the request record are read by everything that shows or stores a price.
  config: { values: 'core money' },
  contract: { values: 'core config dialects money' },
  dialects: { values: 'core', types: 'config' },
  limits: { values: 'core' },
  records: { values: 'core money', types: 'contract' },
  money: { values: 'core records telemetry', types: 'call.ts dialects route upstream' },
  route: { values: 'core money', types: 'config' },
  tools: { values: 'core contract', types: 'config' },
  demo: { values: 'core', types: 'config' },
  auth: { values: 'core contract' },
  // Configuration objects in the store, and the audit log.
  control: { values: 'core auth config contract', types: 'records telemetry' },
  telemetry: { values: 'core config money', types: 'records route' },
  // Credentials of the machine or container, for providers and for the object storage.
  workload: { values: 'core', types: 'config' },
  upstream: { values: 'core dialects limits workload call.ts', types: 'config records route' },
  cache: { values: 'core upstream call.ts' },
  operations: {
    values: 'core dialects limits money route tools upstream',
    types: 'config telemetry call.ts',
  },
  // The flow of a request. The steps are passed in, so these import almost no implementation.
  'call.ts': { values: 'core', types: 'cache dialects money route upstream' },
  'gateway.ts': { values: 'core upstream call.ts', types: 'dialects money route' },
  // jobs.ts connects the parts of the module, as compose/ does for other modules.
  jobs: {
    values:
      'core auth cache contract dialects money operations route store telemetry upstream gateway.ts',
    types: 'config limits records call.ts',
  },
  store: {
    values: 'core limits money records workload',
    types: 'auth cache config contract control jobs telemetry tools',
  },
  http: {
    values:
      'core auth config contract control dialects limits money operations records telemetry gateway.ts',
    types: 'jobs route tools upstream call.ts',
  },
  cli: {
    values:
      'core auth compose config contract control demo money records route store telemetry tools upstream',
  },
  compose: { values: '*' },
  'main.ts': { values: 'cli config' },
};

/** The only modules that may import a package, by package name. */
export const packageHomes: Readonly<Record<string, string>> = {
  hono: 'http',
  kysely: 'store',
  pg: 'store',
  // A journal's lock is an SQLite file.
  'bun:sqlite': 'money store',
};
