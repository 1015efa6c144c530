/** Whether the model must call a tool, be it any tool or the one that is named. */
export function isForced(choice: string | object | null | undefined): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}
