/** Whether the model must call a tool, whichever it likes or the one that is named. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}
