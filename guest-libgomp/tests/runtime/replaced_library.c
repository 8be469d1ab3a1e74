/* Built twice, with values that differ. Nothing else does. */
int replaced_value(void);
int replaced_value(void)
{
    return VALUE;
}
