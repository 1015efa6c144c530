/** What is said of a document of words where a vendor has no place for its title. */
export function documentText(text: string, title: string | undefined): string {
  return title ? `${title}\n\n${text}` : text;
}
