import type { ToolChoice } from '../../core/dialogue.ts';

/** Whether the model must call a tool, whichever it likes or the one that is named. */
export function isForced(choice: ToolChoice | null): boolean {
  return choice === 'required' || (typeof choice === 'object' && choice !== null);
}
