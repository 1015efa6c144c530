/** Markdown files are imported as the text they are. */
declare module '*.md' {
  const text: string;
  export = text;
}
