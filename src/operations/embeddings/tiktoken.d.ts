/** A vocabulary. Each line has the bytes of a token in base64, and its number. */
declare module '*.tiktoken' {
  const lines: string;
  export = lines;
}
