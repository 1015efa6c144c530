/** A text document with its title on top, for vendors that have no field for the title. */
export function documentText(text: string, title: string | undefined): string {
  return title ? `${title}\n\n${text}` : text;
}
