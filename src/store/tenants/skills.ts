import type { Selectable } from 'kysely';
import type { SkillStore, StoredSkill } from '../../tools/skills/skill.ts';
import { inVersionedTransaction } from '../changes.ts';
import { SqlRepository, type StoreTransaction } from '../database.ts';
import type { SkillsTable } from '../schema.ts';

export class SqlSkills extends SqlRepository implements SkillStore {
  async list(tenantId: string): Promise<readonly Omit<StoredSkill, 'instructions'>[]> {
    const rows = await this.database.read
      .selectFrom('skills')
      .select(['tenant_id', 'name', 'description', 'created_at', 'updated_at'])
      .where('tenant_id', '=', tenantId)
      .orderBy('name')
      .execute();
    return rows.map(summaryOf);
  }

  async get(tenantId: string, name: string): Promise<StoredSkill | undefined> {
    const row = await this.database.read
      .selectFrom('skills')
      .selectAll()
      .where('tenant_id', '=', tenantId)
      .where('name', '=', name)
      .executeTakeFirst();
    return row && skillOf(row);
  }

  put(skill: StoredSkill, countMax: number): Promise<StoredSkill | undefined> {
    return inVersionedTransaction(this.database, skill.tenantId, async (trx) => {
      if (!(await isBelowMax(trx, skill, countMax))) return undefined;
      const { tenantId, name, description, instructions, createdAt, updatedAt } = skill;
      const text = { description, instructions, updated_at: updatedAt };
      const row = await trx
        .insertInto('skills')
        .values({ tenant_id: tenantId, name, created_at: createdAt, ...text })
        .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doUpdateSet(text))
        .returningAll()
        .executeTakeFirstOrThrow();
      return skillOf(row);
    });
  }

  remove(tenantId: string, name: string): Promise<boolean> {
    return inVersionedTransaction(this.database, tenantId, async (trx) => {
      const row = await trx
        .deleteFrom('skills')
        .where('tenant_id', '=', tenantId)
        .where('name', '=', name)
        .returning('name')
        .executeTakeFirst();
      return row !== undefined;
    });
  }
}

async function isBelowMax(
  trx: StoreTransaction,
  { tenantId, name }: StoredSkill,
  countMax: number,
): Promise<boolean> {
  // Lock the tenant, so that two concurrent requests can't both add the last allowed skill.
  await trx.selectFrom('tenants').select('id').where('id', '=', tenantId).forUpdate().execute();
  const { others } = await trx
    .selectFrom('skills')
    .select((eb) => eb.fn.countAll<number>().as('others'))
    .where('tenant_id', '=', tenantId)
    .where('name', '!=', name)
    .executeTakeFirstOrThrow();
  return others < countMax;
}

function summaryOf(row: Omit<Selectable<SkillsTable>, 'instructions'>) {
  return {
    tenantId: row.tenant_id,
    name: row.name,
    description: row.description,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
}

function skillOf(row: Selectable<SkillsTable>): StoredSkill {
  return { ...summaryOf(row), instructions: row.instructions };
}
