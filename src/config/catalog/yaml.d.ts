/** YAML files are data of unknown shape until the catalogue test has checked them. */
declare module '*.yaml' {
  const data: unknown;
  export = data;
}
