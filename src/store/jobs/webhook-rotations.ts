import { strict as assert } from 'node:assert';
import type { WebhookRotation, WebhookRotations } from '../../jobs/webhook-signer.ts';
import { SqlRepository } from '../database.ts';

export class SqlWebhookRotations extends SqlRepository implements WebhookRotations {
  async find(tenantId: string): Promise<WebhookRotation> {
    const row = await this.database.read
      .selectFrom('tenants')
      .select(['webhook_rotations', 'previous_webhook_secret_until'])
      .where('id', '=', tenantId)
      .executeTakeFirst();
    return rotationOf(row);
  }

  async rotate(tenantId: string, previousUntil: number, now: number): Promise<WebhookRotation> {
    const row = await this.database.write
      .updateTable('tenants')
      .set((eb) => ({
        webhook_rotations: eb('webhook_rotations', '+', 1),
        previous_webhook_secret_until: previousUntil,
        updated_at: now,
      }))
      .where('id', '=', tenantId)
      .returning(['webhook_rotations', 'previous_webhook_secret_until'])
      .executeTakeFirst();
    return rotationOf(row);
  }
}

interface RotationRow {
  readonly webhook_rotations: number;
  readonly previous_webhook_secret_until: number | null;
}

function rotationOf(row: RotationRow | undefined): WebhookRotation {
  assert(row, 'A tenant with webhooks has no row.');
  return { number: row.webhook_rotations, previousUntil: row.previous_webhook_secret_until };
}
